"""How a turn of an ACP agent is ended against its will, and how the agent itself is let go."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.ids import TurnId
from supervisor.core.limits import Ladder
from supervisor.core.session import LadderStep
from supervisor.drivers.acp.agent import scripted_process
from supervisor.drivers.acp.life import driver as acp_driver
from tests.drivers.acp.driver_desk import AcpDesk, open_desk, open_puppet
from tests.drivers.in_memory import InMemoryProcesses
from tests.drivers.office import StandInOffice

STEPS: tuple[LadderStep, ...] = ("ask", "close", "terminate", "kill")
# What it takes to end a turn of such an agent.
AGENTS = {
    "ask": "sleep 1000",
    "close": "hang",
    "terminate": "ignore-eof\nhang",
    "kill": "ignore-term\nhang",
}


async def climb(desk: AcpDesk, turn: TurnId) -> LadderStep | None:
    """Take one step after the other, as a session does, until the turn is over."""
    over = trio.Event()
    desk.office.on_report = lambda _: over.set()
    for step in STEPS:
        desk.driver.cancel_turn(turn, step)
        with trio.move_on_after(getattr(desk.office.ladder, f"{step}_seconds")):
            await over.wait()
            return step
    return None


@pytest.mark.parametrize(("step", "script"), AGENTS.items())
async def test_each_step_ends_an_agent_that_is_not_ended_by_those_before(
    step: LadderStep, script: str
) -> None:
    async with open_desk() as desk:
        await desk.come_up()
        turn = desk.order(f"say half\n{script}")
        await settle()

        assert await climb(desk, turn) == step
        await settle()
        assert desk.office.kinds() == [{"ask": "TurnEnded"}.get(step, "AgentExited")]
        assert desk.office.processes == [] or step == "ask"


async def test_a_frozen_one_is_gone_within_the_sum() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        turn = desk.order("stop-self")
        await settle()

        assert await climb(desk, turn) == "terminate"
        assert trio.current_time() <= desk.office.ladder.total_seconds + 0.5


async def test_a_step_signals_nobody_else() -> None:
    async with open_desk() as desk:
        other = AcpDesk(scripted_process(), desk.workshop, desk.processes)
        await other.come_up()
        bystander = other.order("sleep 60\nsay done")
        await desk.come_up()
        turn = desk.order("ignore-eof\nignore-term\nhang")
        await settle()
        await climb(desk, turn)

        assert {pid for pid, _ in desk.processes.signals} == {desk.process.identity.pid}
        ended = await other.office.heard(ev.TurnEnded)
        assert (ended.turn, ended.text) == (bystander, "done")


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_against_a_turn_that_is_over_does_nothing(step: LadderStep) -> None:
    async with open_desk() as desk:
        await desk.come_up()
        first = (await desk.run("say one")).turn
        desk.order("sleep 1\nsay two")
        desk.driver.cancel_turn(first, step)
        ended = await desk.office.heard(ev.TurnEnded, times=2)

        assert (ended.outcome, ended.text) == ("completed", "two")
        assert desk.heard("session/cancel") == []
        assert desk.processes.signals == []


async def test_one_that_is_asked_again_and_again_is_told_once() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        turn = desk.order("linger 1")
        await settle()
        for _ in range(3):
            desk.driver.cancel_turn(turn, "ask")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.outcome, ended.text) == ("interrupted", "late\n")
        assert len(desk.heard("session/cancel")) == 1


async def test_a_turn_that_ends_as_it_is_interrupted_keeps_what_it_came_to() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        turn = desk.order("go")
        prompt = await puppet.hears("session/prompt")
        desk.driver.cancel_turn(turn, "ask")
        puppet.updates("done")
        puppet.ends(prompt)
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.outcome, ended.stop_reason) == ("completed", "end_turn")


async def test_an_interrupt_that_comes_with_the_end_of_its_turn_does_not_hit_the_next() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        turn = desk.order("go")
        prompt = await puppet.hears("session/prompt")
        puppet.updates("done")
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)
        desk.driver.cancel_turn(turn, "ask")
        desk.order("next")
        await puppet.hears("session/prompt", times=2)
        await settle()

        assert desk.heard("session/cancel") == []


async def test_a_turn_that_was_never_sent_needs_no_end() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        turn = desk.order("say hello")
        desk.driver.cancel_turn(turn, "ask")
        ended = await desk.office.heard(ev.TurnEnded)
        await settle()

        assert ended.outcome == "interrupted"
        assert desk.methods() == []


async def test_one_that_answers_an_interrupt_with_an_error_was_interrupted() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        turn = desk.order("go")
        prompt = await puppet.hears("session/prompt")
        desk.driver.cancel_turn(turn, "ask")
        await puppet.hears("session/cancel")
        puppet.refuses(prompt, -32603, "aborted")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.outcome, ended.error) == ("interrupted", None)


# Not even a kill ---------------------------------------------------------------------------


@pytest.fixture
def immortals(monkeypatch: pytest.MonkeyPatch) -> InMemoryProcesses:
    processes = InMemoryProcesses(are_immortal=True)
    monkeypatch.setattr(acp_driver, "is_alive", processes.is_alive)
    return processes


async def test_one_that_survives_everything_is_a_zombie_until_it_dies(
    immortals: InMemoryProcesses,
) -> None:
    async with open_desk(processes=immortals) as desk:
        await desk.come_up()
        turn = desk.order("ignore-eof\nhang")
        await settle()
        assert await climb(desk, turn) is None
        desk.driver.abandon_turn(turn)
        assert list(desk.workshop.zombies) == [turn]
        assert str(desk.process.identity.pid) in desk.workshop.zombies[turn]

        await trio.sleep(1000)
        assert desk.office.kinds() == []
        desk.process.die()
        await desk.office.heard(ev.ZombieEnded)
        assert desk.workshop.zombies == {}
        # In this order: nobody gives the next turn to one that is gone.
        assert desk.office.kinds() == ["AgentExited", "ZombieEnded"]


async def test_one_that_survives_being_let_go_is_said_to_be_unkillable(
    immortals: InMemoryProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_desk(processes=immortals) as desk:
        await desk.come_up()
        await desk.run("ignore-eof\nsay hello")
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)
        assert f"unkillable: process {desk.process.identity.pid}" in caplog.text
        assert desk.office.processes == [desk.process.identity]
        desk.process.die()


# Letting go --------------------------------------------------------------------------------


async def test_one_that_wants_to_know_is_told_that_the_conversation_is_over() -> None:
    for flags, told in ((("--close",), ["session/close"]), ((), [])):
        async with open_desk(*flags) as desk:
            await desk.come_up()
            desk.driver.close()
            await desk.office.heard(ev.AgentClosed)

            assert desk.methods() == told
            assert desk.processes.signals == []


@pytest.mark.parametrize(
    ("script", "seconds", "signals"),
    [
        ("say hello", 0, []),
        ("say hello\nanswer\nignore-eof", 2, ["terminate"]),
        ("say hello\nanswer\nignore-eof\nignore-term", 4, ["terminate", "kill"]),
        ("say hello\nanswer\nstop-self", 2, ["terminate"]),
        ("say hello\nanswer\ndeaf", 2, ["terminate"]),
    ],
)
async def test_letting_go_is_as_rough_as_it_has_to_be(
    script: str, seconds: float, signals: list[str]
) -> None:
    async with open_desk() as desk:
        await desk.come_up()
        await desk.run(script)
        await settle()
        began = trio.current_time()
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)

        assert trio.current_time() - began == seconds
        assert [signal for _, signal in desk.processes.signals] == signals


async def test_one_that_hangs_when_the_conversation_is_closed_is_let_go_all_the_same() -> None:
    office = StandInOffice()
    office.ladder = Ladder(ask_seconds=3.0)
    async with open_desk("--close", "--hang-at", "close", office=office) as desk:
        await desk.come_up()
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)

        assert trio.current_time() == 3.0


@pytest.mark.parametrize("flags", [("--die-at", "close"), ("--fail-at", "close")])
async def test_one_that_dies_of_being_closed_is_closed(flags: tuple[str, ...]) -> None:
    async with open_desk("--close", *flags) as desk:
        await desk.come_up()
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)
        await settle()

        assert desk.office.kinds() == ["AgentClosed"]


async def test_one_that_is_let_go_in_the_middle_of_a_turn_is_asked_to_end_it_first() -> None:
    async with open_desk("--close") as desk:
        await desk.come_up()
        desk.order("sleep 1000")
        await settle()
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)

        assert desk.methods() == ["session/prompt", "session/cancel", "session/close"]
        assert desk.processes.signals == []


async def test_one_that_will_not_end_its_turn_is_let_go_all_the_same() -> None:
    async with open_desk("--close") as desk:
        await desk.come_up()
        desk.order("ignore-eof\nhang")
        await settle()
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)

        assert trio.current_time() == 7.0  # asked, then its input closed
        assert [signal for _, signal in desk.processes.signals] == ["terminate"]


async def test_one_that_dies_as_it_is_let_go_is_closed_and_no_more() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        puppet.leaves(1)
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)
        await trio.sleep(60)

        assert desk.office.kinds() == ["AgentClosed"]


@pytest.mark.parametrize("script", ["sleep 1000", "hang", "stop-self", "ignore-eof\nhang"])
async def test_one_that_is_dropped_in_the_middle_of_a_turn_is_killed_and_was_a_zombie(
    script: str,
) -> None:
    async with open_desk() as desk:
        await desk.come_up()
        turn = desk.order(script)
        await settle()
        desk.driver.drop()
        assert list(desk.workshop.zombies) == [turn]
        await desk.office.heard(ev.ZombieEnded)
        await settle()

        assert desk.office.kinds() == ["ZombieEnded"]
        assert desk.workshop.zombies == {}
        assert desk.office.processes == []
