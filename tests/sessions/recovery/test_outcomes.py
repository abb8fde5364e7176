"""After a kill every session has one definite fate, by the phase that it was found in."""

import trio

from actors.testing import settle
from supervisor import Restart, Settings
from supervisor.drivers.port import DriverContext
from supervisor.drivers.runtime import DriverRuntime
from tests.support.fake_agents import FakeAgent, outcomes, records, waiting_texts
from tests.support.killed_program import Program, check_rows, kind_is
from tests.support.session_states import NEVER, SlowStartAgent, phase_of


async def test_a_session_that_was_starting_has_failed_to_start(program: Program) -> None:
    slow = SlowStartAgent()
    async with program.running(agents=[slow]) as sup:
        program.begin(sup.create, "slow")
        await settle()

    async with program.running(agents=[slow]) as sup:
        [info] = (await sup.list()).items
        assert (info.phase, info.stop_reason, info.badge) == ("stopped", "start_failed", "failed")


async def test_an_idle_session_is_suspended(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")

    async with program.running() as sup:
        assert await phase_of(sup.session(session.id)) == "suspended"


async def test_recovery_leaves_a_suspended_session_untouched(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", suspend_after_seconds=1.0)
        await trio.sleep(10.0)
        before = await session.info()

    async with program.running() as sup:
        assert await sup.session(session.id).info() == before


async def test_recovery_leaves_a_stopped_session_untouched(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.stop()
        before = await session.info()

    async with program.running() as sup:
        assert await sup.session(session.id).info() == before


async def test_an_open_turn_is_closed_as_lost_once(program: Program, fake_agent: FakeAgent) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", restart=NEVER)
        receipt = await session.send("first")
        await fake_agent.next_run()

    for _ in range(3):
        async with program.running() as sup:
            [ended] = await records(sup.session(session.id), "turn_ended")
            assert (ended.body["turn_id"], ended.body["outcome"]) == (receipt.turn_id, "lost")
            await check_rows(sup)


async def test_stored_output_of_a_lost_turn_is_its_text(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        await run.do(run.turn.say("half a "))
        await trio.sleep(1.0)

    async with program.running() as sup:
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["text"] == "half a "


async def test_a_kill_loses_at_most_250_ms_of_text(program: Program, fake_agent: FakeAgent) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        await run.do(run.turn.say("old "))
        await trio.sleep(0.3)
        await run.do(run.turn.say("young"))

    async with program.running() as sup:
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["text"] == "old "


async def test_the_input_of_a_lost_turn_stays_delivered(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        receipt = await session.send("first")
        await fake_agent.next_run()

    async with program.running() as sup:
        await settle()
        assert await outcomes(sup.session(session.id)) == {receipt.input_id: ["delivered"]}
        assert not fake_agent.runs[1:]


async def test_open_tool_calls_of_a_lost_turn_are_interrupted(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        call = await run.open_call("bash")
        await settle()
        call_id = call.id

    async with program.running() as sup:
        [ended] = await records(sup.session(session.id), "tool_ended")
        assert (ended.body["call_id"], ended.body["outcome"]) == (call_id, "interrupted")


async def test_requests_of_a_lost_turn_are_cancelled(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        run.begin(run.turn.ask("may I?", tool="bash"))
        await settle()
        assert len(await sup.permissions()) == 1

    async with program.running() as sup:
        assert await sup.permissions() == ()
        [answered] = await records(sup.session(session.id), "permission_answered")
        assert answered.body["decision"] == "cancelled"


async def test_an_interrupting_session_is_recovered_like_a_running_session(
    program: Program, shielded_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("shielded", restart=NEVER)
        await session.send("first")
        await shielded_agent.next_run()
        program.begin(session.interrupt)
        await settle()
        assert await phase_of(session) == "interrupting"

    async with program.running() as sup:
        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "agent_crashed")
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["outcome"] == "lost"


async def test_a_session_that_was_stopping_has_stopped_for_the_same_cause(
    program: Program, shielded_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("shielded")
        await session.send("first")
        await shielded_agent.next_run()
        program.begin(session.stop)
        await settle()
        assert await phase_of(session) != "stopped"

    async with program.running() as sup:
        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "user_cancelled")


async def test_a_session_to_stop_after_its_turn_has_stopped(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        await fake_agent.next_run()
        program.begin(lambda: session.stop(when="after_turn"))
        await settle()

    async with program.running() as sup:
        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "user_cancelled")


async def test_a_turn_waiting_for_its_agent_is_lost_by_a_kill(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", suspend_after_seconds=1.0)
        await trio.sleep(10.0)
        program.begin(session.send, "are you there?")
        await program.kill_before(kind_is("agent_attached"))

    async with program.running() as sup:
        again = sup.session(session.id)
        assert [*(await outcomes(again)).values()] == [["delivered"]]
        assert [one.body["outcome"] for one in await records(again, "turn_ended")] == ["lost"]


async def test_a_session_with_queued_inputs_is_woken_after_a_restart(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running(settings=Settings(max_running_turns=1)) as sup:
        busy, waits = await sup.create("fake", restart=NEVER), await sup.create("fake")
        await busy.send("first")
        await fake_agent.next_run()
        await waits.send("second")
        assert (await waits.info()).waiting_for == "turn_slot"

    async with program.running(settings=Settings(max_running_turns=1)) as sup:
        assert await fake_agent.finish_all() == ["second"]
        assert await phase_of(sup.session(waits.id)) == "idle"


async def test_a_queue_runs_in_order_after_a_restart(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", restart=Restart(policy="on_crash"))
        for text in ("first", "second", "third"):
            await session.send(text)
        await fake_agent.next_run()

    async with program.running() as sup:
        assert await fake_agent.finish_all() == ["second", "third"]
        assert await phase_of(sup.session(session.id)) == "idle"


async def test_a_queue_is_held_when_the_session_has_crashed(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", restart=NEVER)
        for text in ("first", "second", "third"):
            await session.send(text)
        await fake_agent.next_run()

    async with program.running() as sup:
        again = sup.session(session.id)
        assert await fake_agent.finish_all() == []
        assert await waiting_texts(again) == ["second", "third"]
        await again.send("fourth")
        assert await fake_agent.finish_all() == ["second", "third", "fourth"]


async def test_queued_inputs_of_an_idle_session_run_after_the_start(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        for text in ("first", "second"):
            await session.send(text)
        run = await fake_agent.next_run()
        program.begin(program.kill_before, kind_is("turn_started"))
        await settle()
        run.finish("done")
        await program.store.killed.wait()

    async with program.running() as sup:
        assert await fake_agent.finish_all() == ["second"]
        found = await records(sup.session(session.id), "turn_ended")
        assert [one.body["outcome"] for one in found] == ["lost", "completed"]


async def test_steering_not_taken_by_a_lost_turn_is_queued_at_its_position(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        await fake_agent.next_run()
        await session.send("guidance", when_busy="steer")
        await session.send("second")

    async with program.running() as sup:
        assert await fake_agent.finish_all() == ["guidance", "second"]
        assert {*map(tuple, (await outcomes(sup.session(session.id))).values())} == {("delivered",)}


class _Starter(SlowStartAgent):
    """Says that it has begun to start."""

    def __init__(self, begun: list[SlowStartAgent]) -> None:
        super().__init__()
        self._begun = begun

    def start(self) -> None:
        self._begun.append(self)
        super().start()


class Crowd:
    """Agents that are never up; says how many are on their way."""

    name = "slow"
    runs_process = False

    def __init__(self) -> None:
        self.all: list[SlowStartAgent] = []

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> SlowStartAgent:
        return _Starter(self.all).make_driver(context, runtime)


async def test_agent_starts_are_limited_by_the_settings(program: Program) -> None:
    quick, slow = FakeAgent("slow"), Crowd()
    async with program.running(agents=[quick.agent]) as sup:
        for _ in range(6):
            session = await sup.create("slow", restart=Restart(policy="always"))
            await session.send("first")
            await session.send("second")

    async with program.running(agents=[slow], settings=Settings(start_concurrency=2)):
        await settle()
        assert len(slow.all) == 2
        for number in range(6):
            slow.all[number].report_start()
            await settle()
        assert len(slow.all) == 6
