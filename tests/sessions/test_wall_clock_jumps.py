"""Durations do not follow the wall clock, and time stamps do: each clock jumps alone here."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Session, Settings
from supervisor.core.steady_time import ClockReading, resume_steady
from supervisor.sessions import clock as clocks
from tests.support.fake_agents import AgentRun, FakeAgent

HOUR = 3600.0


class Wall:
    """A wall clock over virtual time that a test sets ahead or back."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def read(self) -> float:
        return 1_000_000_000.0 + trio.current_time() + self.ahead_seconds


@pytest.fixture(autouse=True)
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    made = Wall()
    monkeypatch.setattr(clocks, "_virtual_wall", made.read)
    return made


async def status_of(session: Session, input_id: str) -> str:
    await settle()
    return (await session.input(input_id)).status


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_an_input_expires_after_its_ttl_whatever_the_wall_clock(
    session: Session, run: AgentRun, wall: Wall, jump: float
) -> None:
    waiting = await session.send("later", ttl_seconds=60.0)

    wall.ahead_seconds += jump
    await session.send("another")
    await trio.sleep(59.0)
    assert await status_of(session, waiting.input_id) == "queued"
    await trio.sleep(2.0)

    assert await status_of(session, waiting.input_id) == "expired"
    run.finish()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_child_expires_after_its_ttl_whatever_the_wall_clock(
    session: Session, wall: Wall, jump: float
) -> None:
    child = await session.spawn("echo", "errand", ttl_seconds=60.0)

    wall.ahead_seconds += jump
    await trio.sleep(59.0)
    assert (await child.info()).phase != "stopped"
    await trio.sleep(2.0)

    assert (await child.info()).stop_reason == "ttl_expired"


async def test_an_expiry_is_shown_by_the_present_wall_clock(
    session: Session, run: AgentRun, wall: Wall
) -> None:
    await session.send("later", ttl_seconds=60.0)
    child = await session.spawn("echo", "errand", ttl_seconds=60.0)

    wall.ahead_seconds += HOUR

    [waiting] = await session.inputs()
    assert waiting.expires_at == pytest.approx(wall.read() + 60.0)
    assert (await child.info()).expires_at == pytest.approx(wall.read() + 60.0)
    run.finish()


async def test_stamps_are_true_again_after_the_wall_clock_was_set_back(
    session: Session, run: AgentRun, wall: Wall
) -> None:
    wall.ahead_seconds += HOUR
    await run.turn.say("ahead")
    async with run.turn.tool("look"):
        wall.ahead_seconds = 0.0
        await run.turn.say("true")
    run.finish()
    await settle()

    records = [record for turn in await session.history() for record in turn.records]
    ahead = [one.seq for one in records if one.at > wall.read() + 1.0]
    assert ahead == [one.seq for one in records if one.kind == "agent_text"][:1] + [
        one.seq for one in records if one.kind == "tool_call"
    ]
    assert (await session.info()).updated_at == pytest.approx(wall.read())


async def test_a_step_back_within_a_second_keeps_stamps_in_order(
    session: Session, run: AgentRun, wall: Wall
) -> None:
    await run.turn.say("one")
    wall.ahead_seconds -= 0.9
    async with run.turn.tool("look"):
        await run.turn.say("two")
    run.finish()
    await settle()

    stamps = [record.at for turn in await session.history() for record in turn.records]
    assert stamps == sorted(stamps)


# Over a restart ---------------------------------------------------------------------------------


async def queue_one(path: Path, agent: FakeAgent, wall: Wall, *, jump: float) -> tuple[str, str]:
    """Queue an input for 60 s, set the wall clock, and leave with the input still queued."""
    settings = Settings(exit_seconds=1.0)
    async with supervisor.open(path, agents=[agent.agent], settings=settings) as sup:
        session = await sup.create("fake")
        await session.send("first")
        await agent.next_run()
        receipt = await session.send("later", ttl_seconds=60.0)
        wall.ahead_seconds += jump
        await session.set(title="a record by the new time")
    return session.id, receipt.input_id


async def outcome_after(path: Path, agent: FakeAgent, session_id: str, input_id: str) -> str:
    async with supervisor.open(path, agents=[agent.agent]) as sup:
        await settle()
        outcome = (await sup.session(session_id).input(input_id)).status
        agent.finish_open_runs()
        return outcome


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_jump_of_an_earlier_run_does_not_expire_an_input(
    fake_agent: FakeAgent, wall: Wall, tmp_path: Path, jump: float
) -> None:
    path = tmp_path / "state.db"
    names = await queue_one(path, fake_agent, wall, jump=0.0)

    async with supervisor.open(path) as sup:  # without the agent, the input stays queued
        wall.ahead_seconds += jump
        await sup.create("echo")

    wall.ahead_seconds -= jump
    assert await outcome_after(path, fake_agent, *names) == "delivered"


async def test_the_time_between_two_runs_counts_for_an_input(
    fake_agent: FakeAgent, wall: Wall, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    names = await queue_one(path, fake_agent, wall, jump=0.0)

    wall.ahead_seconds += HOUR

    assert await outcome_after(path, fake_agent, *names) == "expired"


@pytest.mark.parametrize(
    ("boot", "monotonic", "wall_at", "expected"),
    [
        ("b1", 70.0, 5_000.0, 1_060.0),  # the same boot: the wall clock does not matter
        ("b1", 70.0, -5_000.0, 1_060.0),
        ("b2", 3.0, 2_100.0, 1_100.0),  # another boot: the wall clock measures the downtime
        ("b2", 3.0, 500.0, 1_000.0),  # and if it went back, none is counted
        (None, 70.0, 2_030.0, 1_030.0),
    ],
)
def test_steady_time_continues_by_the_best_clock_there_is(
    boot: str | None, monotonic: float, wall_at: float, expected: float
) -> None:
    noted = ClockReading(boot_id="b1", monotonic=10.0, steady=1_000.0, wall=2_000.0)

    assert resume_steady(noted, boot_id=boot, monotonic=monotonic, wall=wall_at) == expected
