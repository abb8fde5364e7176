"""`why`: every kind of wait has its word, and chains lead to the session that must act."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    InputRefused,
    Limits,
    PythonAgent,
    Restart,
    Session,
    SessionNotFound,
    Settings,
    Supervisor,
    Turn,
    Why,
)
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.session_states import SlowStartAgent, phase_of

WORDS = {
    "model",
    "tool",
    "person",
    "child",
    "turn_slot",
    "child_slot",
    "zombie",
    "start",
    "restart",
    "end",
    "input",
    "nothing",
}


class Slow(SlowStartAgent):
    """Comes up at once, and leaves when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False

    def close(self) -> None:
        """It takes its time."""


class Doors:
    """Agents that prompt the next one in a circle, or along a line; "stay" has them wait."""

    def __init__(self, count: int) -> None:
        self.sessions: list[Session] = []
        self.opened = trio.Event()
        self.agents = [PythonAgent(f"door{number}", self._knock) for number in range(count)]

    async def _knock(self, turn: Turn) -> str | None:
        if turn.text == "stay":
            await self.opened.wait()
            return "open"
        here = [session.id for session in self.sessions].index(turn.session_id)
        text = "stay" if turn.text == "line" and here == len(self.sessions) - 2 else turn.text
        after = self.sessions[(here + 1) % len(self.sessions)]
        return (await after.prompt(text)).text

    async def stand(self, sup: Supervisor) -> list[Session]:
        for agent in self.agents:
            self.sessions.append(await sup.create(agent.name))
        return self.sessions


class Insider:
    """An agent that does what the test has it do, in its own task: so it is known who waits."""

    def __init__(self) -> None:
        self.agent = PythonAgent("insider", self._play)
        self.action: Callable[[Turn], Awaitable[object]] | None = None

    async def _play(self, turn: Turn) -> str | None:
        assert self.action is not None
        await self.action(turn)
        return "done"

    async def begin(self, sup: Supervisor, action: Callable[[Turn], Awaitable[object]]) -> Session:
        """A session that is at it."""
        self.action = action
        session = await sup.create("insider")
        await session.send("go")
        await settle()
        return session


@pytest.fixture
def insider() -> Insider:
    return Insider()


@pytest.fixture
async def doors() -> Doors:
    return Doors(3)


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
async def sup(
    fake_agent: FakeAgent,
    shielded_agent: FakeAgent,
    doors: Doors,
    slow: Slow,
    insider: Insider,
) -> AsyncIterator[Supervisor]:
    agents: list[Any] = [fake_agent.agent, shielded_agent.agent, slow, insider.agent, *doors.agents]
    async with supervisor.open(agents=agents) as opened:
        try:
            yield opened
        finally:
            doors.opened.set()
            for one in (fake_agent, shielded_agent):
                one.finish_open_runs()


async def alone(session: Session) -> tuple[str, str | None, float]:
    """What a session waits for that waits for no other."""
    why = await session.why()
    (waits,) = why.chain
    assert (waits.session_id, why.session_id, why.cycle) == (session.id, session.id, ())
    assert waits.badge == (await session.info()).badge
    assert (why.waits_for, waits.waits_for in WORDS) == (waits.waits_for, True)
    return waits.waits_for, waits.detail, waits.seconds


def ids(why: Why) -> list[str]:
    return [waits.session_id for waits in why.chain]


# One word for each way to wait --------------------------------------------------------------------


async def test_an_idle_session_waits_for_input(sup: Supervisor, session: Session) -> None:
    await trio.sleep(7.0)

    assert await alone(session) == ("input", None, 7.0)


async def test_a_suspended_session_waits_for_input(sup: Supervisor) -> None:
    session = await sup.create("fake", suspend_after_seconds=1.0)
    await trio.sleep(8.0)

    assert await phase_of(session) == "suspended"
    assert await alone(session) == ("input", None, 7.0)


async def test_a_silent_turn_waits_for_its_model(session: Session, run: AgentRun) -> None:
    await trio.sleep(7.0)

    assert await alone(session) == ("model", None, 7.0)


async def test_a_turn_waits_for_its_running_tool_call(session: Session, run: AgentRun) -> None:
    await run.open_call("grep")
    await run.open_call("bash")
    await trio.sleep(7.0)

    assert await alone(session) == ("tool", "bash", 7.0)


async def test_a_turn_that_asks_waits_for_a_person(session: Session, run: AgentRun) -> None:
    await run.open_call("bash")
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.sleep(7.0)

    assert await alone(session) == ("person", "may I?", 7.0)


async def test_a_turn_waits_for_the_child_it_awaits(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    run.begin(child.wait())
    await trio.sleep(7.0)
    why = await session.why()

    assert ids(why) == [session.id, child.id]
    assert [(one.waits_for, one.detail) for one in why.chain] == [
        ("child", child.id),
        ("model", None),
    ]
    assert why.waits_for == "model"


async def test_a_session_waits_for_a_turn_slot_while_others_run(fake_agent: FakeAgent) -> None:
    settings = Settings(max_running_turns=1)
    async with supervisor.open(agents=[fake_agent.agent], settings=settings) as sup:
        first, second = await sup.create("fake"), await sup.create("fake")
        await first.send("go")
        await settle()
        await second.send("go")
        await trio.sleep(7.0)

        assert await alone(second) == ("turn_slot", None, 7.0)
        fake_agent.finish_open_runs()


async def test_a_child_waits_for_a_child_slot(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    child = await parent.spawn("echo", "errand", suspend_after_seconds=1.0)
    await trio.sleep(5.0)
    await parent.spawn("fake", "errand")
    await child.send("more")
    await trio.sleep(7.0)

    assert await alone(child) == ("child_slot", parent.id, 7.0)


async def test_a_session_waits_for_a_task_that_will_not_end(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    await shielded_session.interrupt()
    await shielded_session.send("next")
    await trio.sleep(7.0)

    assert await alone(shielded_session) == ("zombie", shielded_run.turn.id, 7.0)


async def test_a_session_waits_for_its_agent_to_come_up(
    sup: Supervisor, slow: Slow, nursery: trio.Nursery
) -> None:
    slow.waits = True
    nursery.start_soon(sup.create, "slow")
    await trio.sleep(7.0)
    (info,) = (await sup.list()).items

    assert await alone(sup.session(info.id)) == ("start", None, 7.0)
    slow.report_start()


async def test_a_session_waits_for_its_agent_to_be_started_again(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(backoff_seconds=100.0))
    await session.prompt("crash")
    await trio.sleep(7.0)

    assert await alone(session) == ("restart", "the script says crash", 7.0)


async def test_a_session_that_stops_waits_for_the_end_of_its_agent(
    sup: Supervisor, slow: Slow, nursery: trio.Nursery
) -> None:
    session = await sup.create("slow")
    nursery.start_soon(session.stop)
    await trio.sleep(7.0)

    assert await phase_of(session) == "stopping"
    assert await alone(session) == ("end", None, 7.0)
    SlowStartAgent.close(slow)


async def test_a_stopping_session_waits_for_its_turn_to_end(
    shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    nursery.start_soon(shielded_session.stop)
    await trio.sleep(1.0)

    assert (await alone(shielded_session))[0] == "end"


async def test_a_session_that_stops_waits_for_its_children_first(
    sup: Supervisor, session: Session, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    child = await session.spawn("shielded", "errand")
    await shielded_agent.next_run()
    nursery.start_soon(session.stop)
    await trio.sleep(1.0)
    why = await session.why()

    assert ids(why) == [session.id, child.id]
    assert why.chain[0].waits_for == "child"


async def test_a_stopped_session_waits_for_nothing(sup: Supervisor, session: Session) -> None:
    await session.stop()
    await trio.sleep(7.0)

    assert await alone(session) == ("nothing", "user_cancelled", 7.0)


async def test_why_of_an_unknown_session_raises_session_not_found(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound):
        await sup.session("s_nobody").why()


async def test_a_turn_waiting_for_hooks_says_so(sup: Supervisor, session: Session) -> None:
    async def hang(_: object) -> None:
        await trio.sleep_forever()

    sup.hooks.add("turn_start", hang)
    await session.send("go")
    await trio.sleep(1.0)
    why = await session.why()

    assert why.waits_for != "model"


# Since when ---------------------------------------------------------------------------------------


async def test_a_wait_counts_from_the_last_progress(session: Session, run: AgentRun) -> None:
    await trio.sleep(50.0)
    await run.do(run.turn.say("."))
    await trio.sleep(7.0)
    (waits,) = (await session.why()).chain
    info = await session.info()

    assert waits.seconds == pytest.approx(7.0, abs=0.3)
    assert waits.since == pytest.approx(info.created_at + 50.0, abs=0.3)


async def test_a_look_at_an_idle_session_does_not_count_from_a_change_of_its_title(
    sup: Supervisor, session: Session
) -> None:
    await trio.sleep(50.0)
    await session.set(title="another")
    await trio.sleep(7.0)

    assert (await alone(session))[2] == 57.0


# Chains -------------------------------------------------------------------------------------------


async def test_a_chain_of_three_waits_ends_at_the_blocking_session(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    run.begin(child.wait())
    below = await fake_agent.next_run()
    grandchild = await below.do(below.turn.spawn("fake", "errand"))
    below.begin(grandchild.wait())
    lowest = await fake_agent.next_run()
    lowest.begin(lowest.turn.ask("may I?", tool="bash"))
    await settle()
    why = await session.why()

    assert ids(why) == [session.id, child.id, grandchild.id]
    assert [one.waits_for for one in why.chain] == ["child", "child", "person"]
    assert (why.waits_for, why.cycle) == ("person", ())
    assert ids(await sup.session(child.id).why()) == [child.id, grandchild.id]


async def test_a_chain_leads_through_sessions_of_other_trees(sup: Supervisor, doors: Doors) -> None:
    one, two, three = await doors.stand(sup)
    await one.send("line")
    await settle()
    why = await one.why()

    assert ids(why) == [one.id, two.id, three.id]
    assert why.waits_for == "model"


async def test_a_spawn_waiting_for_the_childs_agent_counts_as_waiting_for_the_child(
    sup: Supervisor, session: Session, run: AgentRun, slow: Slow
) -> None:
    slow.waits = True
    run.begin(run.turn.spawn("slow", "errand"))
    await trio.sleep(7.0)
    why = await session.why()

    assert [one.waits_for for one in why.chain] == ["child", "start"]
    slow.report_start()


@pytest.mark.parametrize("way", ["wait", "prompt", "result", "wait_stopped"])
async def test_every_way_of_awaiting_another_session_is_reported(
    sup: Supervisor, session: Session, insider: Insider, way: str
) -> None:
    other = await session.spawn("fake", "errand")
    receipt = await other.send("more")
    actions: dict[str, Callable[[Turn], Awaitable[object]]] = {
        "wait": lambda _: other.wait(),
        "prompt": lambda _: other.prompt("x"),
        "result": lambda _: other.result(receipt.input_id),
        "wait_stopped": lambda _: other.wait_stopped(),
    }
    waiting = await insider.begin(sup, actions[way])

    assert ids(await waiting.why()) == [waiting.id, other.id]


async def test_an_agent_awaiting_two_sessions_waits_for_the_unfinished_one(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    first = await run.do(run.turn.spawn("fake", "one"))
    second = await run.do(run.turn.spawn("fake", "two"))
    run.begin(first.wait())
    await settle()
    action = run.begin(second.wait())
    await fake_agent.next_run()
    (await fake_agent.next_run()).finish()
    await action.wait()

    assert ids(await session.why()) == [session.id, first.id]


# Circles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
async def test_sessions_that_wait_for_each_other_are_named(count: int) -> None:
    doors = Doors(count)
    async with supervisor.open(agents=doors.agents) as sup:
        circle = [session.id for session in await doors.stand(sup)]
        await doors.sessions[0].send("round")
        await settle()
        for place, session in enumerate(doors.sessions):
            why = await session.why()
            turned = circle[place:] + circle[:place]
            assert (ids(why), list(why.cycle), why.waits_for) == (turned, turned, "cycle")
        await doors.sessions[0].stop()


async def test_a_session_waiting_for_a_cycle_is_not_part_of_it(
    sup: Supervisor, doors: Doors, insider: Insider
) -> None:
    one, two, three = await doors.stand(sup)
    await one.send("round")
    await settle()
    waiting = await insider.begin(sup, lambda _: two.prompt("and me"))
    why = await waiting.why()

    assert ids(why) == [waiting.id, two.id, three.id, one.id]
    assert list(why.cycle) == [two.id, three.id, one.id]
    await one.stop()


async def test_a_cycle_ends_when_one_member_ends(sup: Supervisor, doors: Doors) -> None:
    circle = await doors.stand(sup)
    await circle[0].send("round")
    await settle()
    await circle[0].interrupt(queued="cancel")
    await settle()

    for session in circle:
        assert await alone(session) == ("input", None, 0.0)


@pytest.mark.parametrize("way", ["prompt", "result", "wait", "wait_stopped"])
async def test_no_session_waits_for_itself(
    sup: Supervisor, session: Session, insider: Insider, way: str
) -> None:
    refusals: list[InputRefused] = []

    async def wait_for_oneself(turn: Turn) -> None:
        own = sup.session(turn.session_id)
        given: dict[str, list[str]] = {"prompt": ["x"], "result": [turn.input_id]}
        try:
            await getattr(own, way)(*given.get(way, []))
        except InputRefused as refusal:
            refusals.append(refusal)
        await trio.sleep(10.0)

    insider.action = wait_for_oneself
    child = await session.spawn("insider", "errand")
    await settle()

    assert refusals[0].hint
    assert (await alone(child))[0] == "model"


# For people ---------------------------------------------------------------------------------------


async def test_a_chain_reads_as_lines(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    run.begin(child.wait())
    await (await fake_agent.next_run()).open_call("bash")
    await trio.sleep(90.0)

    assert str(await session.why()).splitlines() == [
        f"{session.id} (fake, running) waits for child ({child.id}), since 90 s",
        f"{child.id} (fake, running) waits for tool (bash), since 90 s",
    ]


async def test_a_cycle_is_reported_as_a_cycle(sup: Supervisor, doors: Doors) -> None:
    one, two, three = await doors.stand(sup)
    await one.send("round")
    await settle()
    last = str(await one.why()).splitlines()[-1]

    assert last == f"they wait for each other: {one.id} -> {two.id} -> {three.id} -> {one.id}"
    await one.stop()


# Nothing stale ------------------------------------------------------------------------------------


async def test_a_wait_that_is_over_is_forgotten(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    action = run.begin(child.wait())
    await trio.sleep(50.0)
    (await fake_agent.next_run()).finish("done")
    await action.wait()
    await trio.sleep(7.0)

    assert await alone(session) == ("model", None, 7.0)


async def test_a_cancelled_wait_is_forgotten(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))

    async def impatient() -> None:
        with trio.move_on_after(5.0):
            await child.wait()

    await run.do(impatient())

    assert (await alone(session))[0] == "model"


async def test_a_wait_for_a_deleted_session_is_forgotten(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    action = run.begin(child.wait())
    await settle()
    await sup.delete(child.id)
    assert (await action.wait()).outcome == "interrupted"

    assert (await alone(session))[0] == "model"


async def test_of_an_interrupted_turn_no_wait_is_left_for_the_next(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    run.begin(child.wait())
    await settle()
    await session.interrupt(replace_with="again")
    await settle()

    assert (await alone(session))[0] == "model"


async def test_a_users_wait_does_not_make_the_session_wait(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    other = await sup.create("fake")
    nursery.start_soon(other.prompt, "go")
    await settle()

    assert (await alone(session))[0] == "input"
