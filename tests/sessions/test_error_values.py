"""Error texts are short and never contain the refused value, which may be a secret."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

import supervisor
from supervisor import ConfigError, Session, Settings, Supervisor, SupervisorError, Turn
from tests.support.fake_agents import AgentRun

SECRET = "hunter2"  # noqa: S105 - searched for in error texts
INSIDE: Any = {"password": SECRET}
LISTED: Any = [SECRET]
LARGE: Any = "x" * 1_000_000
SHORT = 300

Mistake = Callable[[Supervisor, Session], Awaitable[object]]

MISTAKES: dict[str, Mistake] = {
    "custom": lambda sup, _: sup.create("fake", custom={"password": LISTED}),
    "tag": lambda sup, _: sup.create("fake", tags=[INSIDE]),
    "limits": lambda sup, _: sup.create("fake", limits=INSIDE),
    "key": lambda sup, _: sup.create("fake", key=INSIDE),
    "agent": lambda sup, _: sup.create(INSIDE),
    "list limit": lambda sup, _: sup.list(limit=INSIDE),
    "list tag": lambda sup, _: sup.list(tag=INSIDE),
    "text": lambda _, session: session.send(INSIDE),
    "attachments": lambda _, session: session.send("look", attachments=INSIDE),
    "attachment": lambda _, session: session.send("look", attachments=[LISTED]),
    "bytes inside": lambda _, session: session.send(
        "look", attachments=[{"password": SECRET, "n": b""}]
    ),
    "large attachments": lambda _, session: session.send("look", attachments=LARGE),
    "large attachment": lambda _, session: session.send("look", attachments=[LARGE]),
    "large word": lambda _, session: session.send("look", when_busy=LARGE),
    "seconds": lambda _, session: session.send("look", ttl_seconds=LISTED),
    "scope": lambda _, session: session.interrupt(INSIDE),
    "title": lambda _, session: session.set(title=INSIDE),
    "large id": lambda sup, _: sup.session(LARGE).info(),
    "large key": lambda sup, _: sup.create("fake", key=LARGE),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_an_error_is_short_and_hides_the_value(
    sup: Supervisor, session: Session, mistake: str
) -> None:
    with pytest.raises(SupervisorError) as refused:
        await MISTAKES[mistake](sup, session)

    assert SECRET not in str(refused.value)
    assert len(str(refused.value)) < SHORT


@pytest.mark.parametrize(
    "options",
    [
        {"settings": INSIDE},
        {"agents": [INSIDE]},
        {"agents": [[SECRET]]},
        {"path": ["password", SECRET]},
    ],
    ids=["settings", "agent", "agents", "path"],
)
async def test_an_error_of_open_hides_the_value(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        async with supervisor.open(**options):
            pass

    assert SECRET not in str(refused.value)


def test_an_error_of_settings_hides_the_value() -> None:
    with pytest.raises(ConfigError) as refused:
        Settings(limits=INSIDE)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "do",
    [
        lambda turn: turn.say(INSIDE),
        lambda turn: turn.ask(INSIDE, tool="bash"),
        lambda turn: turn.ask("may I?", tool="bash", input=[SECRET]),
    ],
    ids=["say", "question", "input"],
)
async def test_the_error_of_a_failed_turn_hides_internal_values(
    session: Session, run: AgentRun, do: Callable[[Turn], Coroutine[Any, Any, object]]
) -> None:
    """The error is a record, readable by every reader of the session while it is kept."""
    with pytest.raises(SupervisorError) as refused:
        await run.do(do(run.turn))

    assert SECRET not in str(refused.value)
