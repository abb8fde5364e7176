"""After a kill every session has one definite fate, by the phase that it was found in."""

import trio

from actors.testing import settle
from supervisor import Restart, Settings
from supervisor.drivers.port import Office, Workshop
from tests.sessions.cast import Player, outcomes, records, waiting_texts
from tests.sessions.lives import NEVER, Understudies, phase_of

from .lives import Program, kind_is, refuse_false_rows


async def test_a_session_that_was_starting_has_failed_to_start(program: Program) -> None:
    slow = Understudies()
    async with program.life(agents=[slow]) as sup:
        program.begin(sup.create, "slow")
        await settle()

    async with program.life(agents=[slow]) as sup:
        [info] = (await sup.list()).items
        assert (info.phase, info.stop_reason, info.badge) == ("stopped", "start_failed", "failed")


async def test_an_idle_session_is_suspended(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player")

    async with program.life() as sup:
        assert await phase_of(sup.session(session.id)) == "suspended"


async def test_a_suspended_session_is_told_nothing_at_all(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player", suspend_after_seconds=1.0)
        await trio.sleep(10.0)
        before = await session.info()

    async with program.life() as sup:
        assert await sup.session(session.id).info() == before


async def test_a_stopped_session_stays_as_it_was(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.stop()
        before = await session.info()

    async with program.life() as sup:
        assert await sup.session(session.id).info() == before


async def test_an_open_turn_is_closed_as_lost_once(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player", restart=NEVER)
        receipt = await session.send("first")
        await player.next_scene()

    for _ in range(3):
        async with program.life() as sup:
            [ended] = await records(sup.session(session.id), "turn_ended")
            assert (ended.body["turn_id"], ended.body["outcome"]) == (receipt.turn_id, "lost")
            await refuse_false_rows(sup)


async def test_what_was_said_in_a_lost_turn_and_written_is_its_text(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        scene = await player.next_scene()
        await scene.do(scene.turn.say("half a "))
        await trio.sleep(1.0)

    async with program.life() as sup:
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["text"] == "half a "


async def test_text_younger_than_250_ms_may_be_lost_and_nothing_else_is(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        scene = await player.next_scene()
        await scene.do(scene.turn.say("old "))
        await trio.sleep(0.3)
        await scene.do(scene.turn.say("young"))

    async with program.life() as sup:
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["text"] == "old "


async def test_the_input_of_a_lost_turn_stays_delivered(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        receipt = await session.send("first")
        await player.next_scene()

    async with program.life() as sup:
        await settle()
        assert await outcomes(sup.session(session.id)) == {receipt.input_id: ["delivered"]}
        assert not player.scenes[1:]


async def test_open_tool_calls_of_a_lost_turn_are_interrupted(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        scene = await player.next_scene()
        call = await scene.open_call("bash")
        await settle()
        call_id = call.id

    async with program.life() as sup:
        [ended] = await records(sup.session(session.id), "tool_ended")
        assert (ended.body["call_id"], ended.body["outcome"]) == (call_id, "interrupted")


async def test_requests_of_a_lost_turn_are_cancelled_and_wait_for_nobody(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        scene = await player.next_scene()
        scene.begin(scene.turn.ask("may I?", tool="bash"))
        await settle()
        assert len(await sup.permissions()) == 1

    async with program.life() as sup:
        assert await sup.permissions() == ()
        [answered] = await records(sup.session(session.id), "permission_answered")
        assert answered.body["decision"] == "cancelled"


async def test_a_session_that_was_interrupting_is_treated_as_one_that_was_running(
    program: Program, deaf_player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("deaf", restart=NEVER)
        await session.send("first")
        await deaf_player.next_scene()
        program.begin(session.interrupt)
        await settle()
        assert await phase_of(session) == "interrupting"

    async with program.life() as sup:
        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "agent_crashed")
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["outcome"] == "lost"


async def test_a_session_that_was_stopping_has_stopped_for_the_same_cause(
    program: Program, deaf_player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("deaf")
        await session.send("first")
        await deaf_player.next_scene()
        program.begin(session.stop)
        await settle()
        assert await phase_of(session) != "stopped"

    async with program.life() as sup:
        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "user_cancelled")


async def test_a_session_to_stop_after_its_turn_has_stopped(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        await player.next_scene()
        program.begin(lambda: session.stop(when="after_turn"))
        await settle()

    async with program.life() as sup:
        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "user_cancelled")


async def test_a_turn_that_was_to_begin_when_its_agent_is_up_is_lost_too(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player", suspend_after_seconds=1.0)
        await trio.sleep(10.0)
        program.begin(session.send, "are you there?")
        await program.die_before(kind_is("agent_attached"))

    async with program.life() as sup:
        again = sup.session(session.id)
        assert [*(await outcomes(again)).values()] == [["delivered"]]
        assert [one.body["outcome"] for one in await records(again, "turn_ended")] == ["lost"]


async def test_a_session_in_which_something_waits_is_woken_after_the_start(
    program: Program, player: Player
) -> None:
    async with program.life(settings=Settings(max_running_turns=1)) as sup:
        busy, waits = await sup.create("player", restart=NEVER), await sup.create("player")
        await busy.send("first")
        await player.next_scene()
        await waits.send("second")
        assert (await waits.info()).waiting_for == "a free turn"

    async with program.life(settings=Settings(max_running_turns=1)) as sup:
        assert await player.play_all() == ["second"]
        assert await phase_of(sup.session(waits.id)) == "idle"


async def test_a_queue_runs_in_its_order_when_the_agent_is_back(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player", restart=Restart(policy="on_crash"))
        for text in ("first", "second", "third"):
            await session.send(text)
        await player.next_scene()

    async with program.life() as sup:
        assert await player.play_all() == ["second", "third"]
        assert await phase_of(sup.session(session.id)) == "idle"


async def test_a_queue_is_held_when_the_session_has_crashed(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player", restart=NEVER)
        for text in ("first", "second", "third"):
            await session.send(text)
        await player.next_scene()

    async with program.life() as sup:
        again = sup.session(session.id)
        assert await player.play_all() == []
        assert await waiting_texts(again) == ["second", "third"]
        await again.send("fourth")
        assert await player.play_all() == ["second", "third", "fourth"]


async def test_what_waited_in_an_idle_session_runs_after_the_start(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        for text in ("first", "second"):
            await session.send(text)
        scene = await player.next_scene()
        program.begin(program.die_before, kind_is("turn_started"))
        await settle()
        scene.finish("done")
        await program.store.dead.wait()

    async with program.life() as sup:
        assert await player.play_all() == ["second"]
        found = await records(sup.session(session.id), "turn_ended")
        assert [one.body["outcome"] for one in found] == ["lost", "completed"]


async def test_steering_that_the_turn_never_took_runs_after_it_in_its_place(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        await player.next_scene()
        await session.send("guidance", when_busy="steer")
        await session.send("second")

    async with program.life() as sup:
        assert await player.play_all() == ["guidance", "second"]
        assert {*map(tuple, (await outcomes(sup.session(session.id))).values())} == {("delivered",)}


class _Starter(Understudies):
    """Says that it has begun to start."""

    def __init__(self, begun: list[Understudies]) -> None:
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
        self.all: list[Understudies] = []

    def make_driver(self, office: Office, workshop: Workshop) -> Understudies:
        return _Starter(self.all).make_driver(office, workshop)


async def test_no_more_agents_start_at_once_than_the_settings_say(program: Program) -> None:
    quick, slow = Player("slow"), Crowd()
    async with program.life(agents=[quick.agent]) as sup:
        for _ in range(6):
            session = await sup.create("slow", restart=Restart(policy="always"))
            await session.send("first")
            await session.send("second")

    async with program.life(agents=[slow], settings=Settings(start_concurrency=2)):
        await settle()
        assert len(slow.all) == 2
        for number in range(6):
            slow.all[number].come_up()
            await settle()
        assert len(slow.all) == 6
