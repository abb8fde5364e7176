"""A disk that cannot be read either: the caller hears it, and no session ends by it."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor import Session, StoreDegraded, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.fake_store import HINT, PROBLEM, FailingStore


@pytest.fixture
def unreadable(store: FailingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be read."""

    async def fail(*_: Any, **__: Any) -> Any:  # noqa: ANN401 - as each of them
        raise StoreDegraded(PROBLEM, hint=HINT)

    for name in ("stored_reply", "records", "read"):
        monkeypatch.setattr(store, name, fail)


async def test_an_input_with_a_key_is_refused_and_the_session_continues(
    session: Session, run: AgentRun, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("unreadable")

    with pytest.raises(StoreDegraded):
        await session.send("more", idempotency_key="k")

    assert not run.over.is_set()


async def test_a_turn_continues_and_can_be_interrupted(
    session: Session, run: AgentRun, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("unreadable")
    await run.do(run.turn.say("word"))

    assert (await session.interrupt()).stopped == 1


async def test_an_unreadable_history_raises_a_typed_error(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("unreadable")

    with pytest.raises(StoreDegraded):
        await session.history()
