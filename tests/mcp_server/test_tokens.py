"""Session tokens: what they say, who has issued them, and how long they count."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.ids import SessionId
from supervisor.core.redaction import REDACTED, redact
from supervisor.http_server.problems import RequestRefused
from supervisor.mcp_server.caller import Caller, ToolScope
from supervisor.mcp_server.tokens import SessionTokens, bearer_token, looks_like_session_token

SESSION: Final = SessionId("ses_0a1b2c3d4e5f")
OTHER: Final = SessionId("ses_zzzzzzzzzzzz")


def tokens(**epochs: int) -> SessionTokens:
    return SessionTokens(epochs.get)


def assert_refused(checked: SessionTokens, text: str) -> None:
    with pytest.raises(RequestRefused) as refusal:
        checked.check(text)

    assert refusal.value.code == "unauthorized"


@pytest.mark.parametrize("scope", ["self", "self,look", "all"])
def test_a_token_names_its_session_and_its_scope(scope: ToolScope) -> None:
    ours = tokens(**{SESSION: 3})

    caller = ours.check(ours.issue(SESSION, 3, scope))

    assert caller == Caller(name=SESSION, scope=scope, session_id=SESSION)


@pytest.mark.parametrize("now", [{SESSION: 4}, {SESSION: 2}, {}, {OTHER: 3}])
def test_a_token_ends_with_the_epoch_and_with_the_session(now: dict[str, int]) -> None:
    epochs: dict[str, int] = {SESSION: 3}
    ours = SessionTokens(epochs.get)
    text = ours.issue(SESSION, 3, "self")
    ours.check(text)

    epochs.clear()
    epochs.update(now)

    assert_refused(ours, text)


def test_a_token_of_another_supervisor_is_refused() -> None:
    text = tokens(**{SESSION: 1}).issue(SESSION, 1, "self")

    assert_refused(tokens(**{SESSION: 1}), text)


def test_no_letter_of_a_token_can_be_changed() -> None:
    ours = tokens(**{SESSION: 1, OTHER: 1})
    text = ours.issue(SESSION, 1, "self")

    for place in range(len(text) - 1):  # the last letter has unused bits
        changed = "a" if text[place] != "a" else "b"
        assert_refused(ours, text[:place] + changed + text[place + 1 :])
    assert_refused(ours, text.replace(SESSION, OTHER))
    assert_refused(ours, text.replace(".self.", ".all."))
    assert_refused(ours, text + ".")
    assert_refused(ours, text[:-1])


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    assert_refused(tokens(**{SESSION: 1}), text)


def test_a_token_is_redacted_in_any_text() -> None:
    text = tokens().issue(SESSION, 12, "self,look")

    assert redact(f"env TOKEN_OF_IT {text}, said the agent") == (
        f"env TOKEN_OF_IT {REDACTED}, said the agent"
    )
    assert looks_like_session_token(text)


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ([], None),
        ([b"Bearer a.b"], "a.b"),
        ([b"bearer a.b "], "a.b"),
        ([b"Basic a.b"], None),
        ([b"Bearer a", b"Bearer b"], None),
    ],
)
def test_the_token_is_read_from_one_authorization_header(
    headers: list[bytes], token: str | None
) -> None:
    scope = {"headers": [(b"authorization", value) for value in headers]}

    assert bearer_token(scope) == token
