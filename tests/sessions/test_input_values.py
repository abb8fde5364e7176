"""Values given by callers: subclasses become plain values, other data is refused unaltered."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest

from actors.testing import settle
from supervisor import (
    ConfigError,
    InputRefused,
    InvalidKey,
    Limits,
    Permissions,
    Restart,
    Session,
    SessionKey,
    Settings,
    Supervisor,
)
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, waiting_texts


class Word(enum.StrEnum):
    """A subclass of str."""

    HELLO = "hello"
    QUEUE = "queue"
    AGENT = "agent"
    ON_CRASH = "on_crash"
    APPROVE_ALL = "approve_all"


class Rank(enum.IntEnum):
    """A subclass of int."""

    FEW = 3


# Texts and numbers of other classes -----------------------------------------------------------


async def test_a_sent_text_of_another_class_is_plain_text(
    session: Session, fake_agent: FakeAgent
) -> None:
    word: Any = Word.QUEUE

    await session.send(Word.HELLO, when_busy=word, idempotency_key=Word.HELLO)
    run = await fake_agent.next_run()

    assert (run.turn.text, type(run.turn.text)) == ("hello", str)


async def test_a_prompt_of_another_class_is_plain_text(sup: Supervisor) -> None:
    session = await sup.create("echo")

    result = await session.prompt(Word.HELLO)

    assert (result.outcome, result.text, type(result.text)) == ("completed", "hello", str)


async def test_a_steering_text_of_another_class_is_plain_text(
    session: Session, run: AgentRun
) -> None:
    await session.steer(Word.HELLO)
    await settle()

    (text,) = run.turn.steering()
    assert (text, type(text)) == ("hello", str)


async def test_a_replacement_of_another_class_is_plain_text(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.interrupt(replace_with=Word.HELLO, reason=Word.HELLO)
    text = (await fake_agent.next_run()).turn.text

    assert (text, type(text)) == ("hello", str)


async def test_an_edited_text_of_another_class_is_plain_text(
    session: Session, run: AgentRun
) -> None:
    receipt = await session.send("second")

    await session.edit_input(receipt.input_id, Word.HELLO)

    (text,) = await waiting_texts(session)
    assert (text, type(text)) == ("hello", str)


async def test_an_appended_text_of_another_class_is_plain_text(session: Session) -> None:
    role: Any = Word.AGENT

    await session.append(role, Word.HELLO)

    (message,) = await session.transcript()
    assert (message.role, message.text) == ("agent", "hello")
    assert (type(message.role), type(message.text)) == (str, str)


async def test_details_of_another_class_are_plain_text(session: Session) -> None:
    await session.set(title=Word.HELLO, tags=[Word.HELLO], custom={Word.HELLO: Word.HELLO})

    info = await session.info()
    ((key, value),) = info.custom.items()
    assert (info.title, info.tags, key, value) == ("hello", ("hello",), "hello", "hello")
    assert {type(text) for text in (info.title, *info.tags, key, value)} == {str}


async def test_create_accepts_str_subclasses(sup: Supervisor) -> None:
    session = await sup.create(
        "fake",
        name=Word.HELLO,
        title=Word.HELLO,
        tags=[Word.HELLO],
        permissions=Permissions(tools=[Word.HELLO]),
    )

    info = await session.info()
    assert {type(info.name), type(info.title), *map(type, info.tags)} == {str}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limits(max_children=Rank.FEW),
        lambda: Limits(cost=Rank.FEW),
        lambda: Settings(queue_cap=Rank.FEW),
        lambda: Settings(exit_seconds=Rank.FEW),
        lambda: Restart(policy=Word.ON_CRASH),  # type: ignore[arg-type]
        lambda: Permissions(mode=Word.APPROVE_ALL),  # type: ignore[arg-type]
    ],
    ids=["whole", "number", "setting", "seconds", "word", "mode"],
)
def test_a_setting_of_another_class_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError) as refused:
        make()

    assert refused.value.hint


@pytest.mark.parametrize("text", [b"x", None, 5, ["x"]])
async def test_a_value_that_is_not_text_is_not_reported_as_blank(
    session: Session,
    text: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(InputRefused) as refused:
        await session.send(text)

    assert "blank" not in str(refused.value)


# Data that is not plain -----------------------------------------------------------------------


def deep(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        float("nan"),
        float("inf"),
        2**70,
        deep(500),
        ("a", "tuple"),
        "\ud800",
        {1: "no text for a key"},
        object(),
    ],
    ids=["bytes", "nan", "inf", "large", "deep", "tuple", "surrogate", "key", "object"],
)
async def test_an_attachment_that_is_not_plain_is_refused_and_not_altered(
    session: Session,
    value: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(InputRefused, match="plain data") as refused:
        await session.send("look", attachments=[{"it": value}])

    assert refused.value.hint
    assert await outcomes(session) == {}


async def test_an_attachment_is_copied_when_sent(session: Session, fake_agent: FakeAgent) -> None:
    given: dict[str, Any] = {"path": "a.txt", "lines": [1, 2.5, None, True]}

    await session.send("look", attachments=[given])
    given["lines"].append("later")
    run = await fake_agent.next_run()

    assert list(run.turn.attachments) == [{"path": "a.txt", "lines": [1, 2.5, None, True]}]


@pytest.mark.parametrize(
    "value", [Word.HELLO, Rank.FEW, [Word.HELLO]], ids=["text", "number", "inside"]
)
async def test_an_attachment_never_reaches_an_agent_as_a_value_of_another_class(
    session: Session,
    fake_agent: FakeAgent,
    value: Any,  # noqa: ANN401
) -> None:
    try:
        await session.send("look", attachments=[{"it": value}])
    except InputRefused:
        return
    (attached,) = (await fake_agent.next_run()).turn.attachments
    it = attached["it"]

    assert type(it[0] if isinstance(it, list) else it) in (str, int)


@pytest.mark.parametrize(
    "custom",
    [{"half": "\ud800"}, {"\ud800": "half"}, {"large": "x" * 20_000}],
    ids=["value", "key", "large"],
)
async def test_custom_data_that_cannot_be_kept_is_refused_and_not_altered(
    sup: Supervisor, session: Session, custom: dict[str, str]
) -> None:
    with pytest.raises(ConfigError):
        await session.set(custom=custom)
    with pytest.raises(ConfigError):
        await sup.create("fake", custom=custom)

    assert (await session.info()).custom == {}


@pytest.mark.parametrize("part", ["x" * 1025, "é" * 513], ids=["letters", "bytes"])
async def test_a_part_of_a_key_has_at_most_1024_bytes(sup: Supervisor, part: str) -> None:
    with pytest.raises(InvalidKey, match="1024"):
        SessionKey("fake", "here", part)
    with pytest.raises(InvalidKey, match="1024"):
        await sup.get_or_create(f"fake:here:{part}")

    assert SessionKey("fake", "here", "x" * 1024).peer == "x" * 1024
