"""What callers once gave and broke something with, or had altered behind their back."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

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
    SessionNotActive,
    Settings,
    Supervisor,
)
from tests.sessions.cast import Player, Scene, outcomes, records, waiting_texts
from tests.sessions.lives import texts_of


class Word(enum.StrEnum):
    """Text, but not only text."""

    HELLO = "hello"
    QUEUE = "queue"
    AGENT = "agent"
    ON_CRASH = "on_crash"
    APPROVE_ALL = "approve_all"


class Rank(enum.IntEnum):
    """A number, but not only a number."""

    FEW = 3


# Texts and numbers of other classes -----------------------------------------------------------


async def test_a_sent_text_of_another_class_is_plain_text(session: Session, player: Player) -> None:
    word: Any = Word.QUEUE

    await session.send(Word.HELLO, when_busy=word, idempotency_key=Word.HELLO)
    scene = await player.next_scene()

    assert (scene.turn.text, type(scene.turn.text)) == ("hello", str)


async def test_a_prompt_of_another_class_is_plain_text(sup: Supervisor) -> None:
    session = await sup.create("echo")

    result = await session.prompt(Word.HELLO)

    assert (result.outcome, result.text, type(result.text)) == ("completed", "hello", str)


async def test_a_steering_text_of_another_class_is_plain_text(
    session: Session, scene: Scene
) -> None:
    await session.steer(Word.HELLO)
    await settle()

    (text,) = scene.turn.steering()
    assert (text, type(text)) == ("hello", str)


async def test_a_replacement_of_another_class_is_plain_text(
    session: Session, scene: Scene, player: Player
) -> None:
    await session.interrupt(replace_with=Word.HELLO, reason=Word.HELLO)
    text = (await player.next_scene()).turn.text

    assert (text, type(text)) == ("hello", str)


async def test_an_edited_text_of_another_class_is_plain_text(
    session: Session, scene: Scene
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


async def test_a_session_is_made_with_texts_of_another_class(sup: Supervisor) -> None:
    session = await sup.create(
        "player",
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
async def test_what_is_no_text_is_not_called_blank(session: Session, text: Any) -> None:  # noqa: ANN401
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


async def test_an_attachment_is_what_it_was_when_it_was_sent(
    session: Session, player: Player
) -> None:
    given: dict[str, Any] = {"path": "a.txt", "lines": [1, 2.5, None, True]}

    await session.send("look", attachments=[given])
    given["lines"].append("later")
    scene = await player.next_scene()

    assert list(scene.turn.attachments) == [{"path": "a.txt", "lines": [1, 2.5, None, True]}]


@pytest.mark.parametrize(
    "value", [Word.HELLO, Rank.FEW, [Word.HELLO]], ids=["text", "number", "inside"]
)
async def test_an_attachment_never_reaches_an_agent_as_a_value_of_another_class(
    session: Session,
    player: Player,
    value: Any,  # noqa: ANN401
) -> None:
    try:
        await session.send("look", attachments=[{"it": value}])
    except InputRefused:
        return
    (attached,) = (await player.next_scene()).turn.attachments
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
        await sup.create("player", custom=custom)

    assert (await session.info()).custom == {}


@pytest.mark.parametrize("part", ["x" * 1025, "é" * 513], ids=["letters", "bytes"])
async def test_a_part_of_a_key_has_at_most_1024_bytes(sup: Supervisor, part: str) -> None:
    with pytest.raises(InvalidKey, match="1024"):
        SessionKey("player", "here", part)
    with pytest.raises(InvalidKey, match="1024"):
        await sup.get_or_create(f"player:here:{part}")

    assert SessionKey("player", "here", "x" * 1024).peer == "x" * 1024


# Inputs of sessions at rest -------------------------------------------------------------------


async def hold_an_input(session: Session, **how: Any) -> str:  # noqa: ANN401
    """Stop the session by a crash of its agent, with an input in its queue; gives its id."""
    await session.send("sleep 1\ncrash")
    receipt = await session.send("say held", **how)
    await session.wait_stopped()
    return receipt.input_id


@pytest.fixture
async def crashing(sup: Supervisor) -> Session:
    """A session whose agent is not restarted when it crashes."""
    return await sup.create("scripted", restart=Restart(policy="never"))


async def test_an_input_that_a_stopped_session_holds_expires_at_its_time(
    crashing: Session,
) -> None:
    held = await hold_an_input(crashing, ttl_seconds=100.0)

    await trio.sleep(90.0)
    assert await waiting_texts(crashing) == ["say held"]
    await trio.sleep(20.0)

    assert await waiting_texts(crashing) == []
    assert (await outcomes(crashing))[held] == ["expired"]
    *_, settled = await records(crashing, "input_settled")
    *_, accepted = await records(crashing, "input_accepted")
    assert settled.at - accepted.at == pytest.approx(100.0, abs=0.01)


async def test_archiving_cancels_what_the_session_holds(crashing: Session) -> None:
    held = await hold_an_input(crashing)

    await crashing.archive()
    await crashing.unarchive()
    await crashing.resume()

    assert (await outcomes(crashing))[held] == ["cancelled"]
    assert "held" not in await texts_of(crashing)


@pytest.mark.parametrize(
    "change",
    [
        lambda session, held: session.edit_input(held, "say another"),
        lambda session, held: session.move_input(held, 0),
        lambda session, held: session.cancel_input(held),
        lambda session, _: session.remove_rule("req_1"),
    ],
    ids=["edit_input", "move_input", "cancel_input", "remove_rule"],
)
async def test_an_archived_session_is_not_changed(
    crashing: Session, change: Callable[[Session, str], Awaitable[None]]
) -> None:
    held = await hold_an_input(crashing)
    await crashing.archive()
    before = (await crashing.info()).last_seq

    with pytest.raises(SessionNotActive, match="archived"):
        await change(crashing, held)

    assert (await crashing.info()).last_seq == before
