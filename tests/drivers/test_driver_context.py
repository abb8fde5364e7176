"""The fake driver context and that of sessions behave alike.

Results of the other tests of this folder with the fake hold for the real `DriverContext`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

import attrs
import pytest
import trio
from trio.testing import assert_checkpoints

import supervisor
from actors.testing import settle
from supervisor import Message, OutputTooLarge, Permissions, Session
from supervisor.core import agent_events
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.state import Decision, LadderStep, Usage
from supervisor.drivers.port import DriverContext
from supervisor.drivers.python import ATTACHED_AGENT
from supervisor.drivers.runtime import DriverRuntime
from tests.support.driver_context import FakeDriverContext

MAX_TURN_BYTES = 1000
PERMISSIONS = Permissions(tools=frozenset({"ls"}), mode="approve_all")


class Idler:
    """An agent, and its driver, that does nothing; it holds what the session gave it."""

    name = "idler"
    runs_process = False
    context: DriverContext
    turn: TurnId

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> Idler:
        self.context = context
        return self

    def start(self) -> None:
        self.context.report_eventually(
            agent_events.AgentAttached(agent=ATTACHED_AGENT, **self.context.stamp())
        )

    def start_turn(self, order: StartTurn) -> None:
        self.turn = order.turn

    def adopt_turn(self, order: AdoptTurn) -> None: ...

    def offer_steering(self, offer: OfferSteering) -> None: ...

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None: ...

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        self.context.report_eventually(
            agent_events.TurnEnded(turn=turn, outcome="interrupted", **self.context.stamp())
        )

    def abandon_turn(self, turn: TurnId) -> None: ...

    def cancel_call(self, turn: TurnId, call: CallId) -> None: ...

    def stop_background_work(self) -> None: ...

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None: ...

    def set_options(self, options: object) -> None: ...

    def close(self) -> None:
        self.context.report_eventually(agent_events.AgentClosed(**self.context.stamp()))

    def blocked_on(self) -> None: ...

    def discard(self) -> None: ...


@attrs.frozen
class World:
    """An office in the middle of a turn, and how to look at what got through."""

    context: DriverContext
    turn: TurnId
    fill: Callable[[], None]
    make_room: Callable[[], None]
    spent: Callable[[], Any]


@asynccontextmanager
async def _stand_in() -> AsyncIterator[World]:
    past = [Message("user", "before", 0.0)]
    context = FakeDriverContext(
        workspace="/home/me",
        permissions=PERMISSIONS,
        max_turn_bytes=MAX_TURN_BYTES,
        past=past,
    )
    context.begin(TurnId("turn_1"))

    async def spent() -> list[int]:
        return [report.usage.input_tokens for report in context.all(agent_events.UsageReported)]

    yield World(context, TurnId("turn_1"), context.fill, context.make_room, spent)


@asynccontextmanager
async def _real() -> AsyncIterator[World]:
    idler = Idler()
    async with supervisor.open(":memory:", agents=[idler]) as sup:
        session = await sup.create(
            "idler",
            workspace="/home/me",
            permissions=PERMISSIONS,
            max_turn_bytes=MAX_TURN_BYTES,
        )
        await session.append("user", "before")
        await session.send("go")
        await settle()

        def fill() -> None:
            # Of a turn that never was, so that the session hears it and does nothing.
            noise = agent_events.ZombieEnded(turn=TurnId("turn_0"), **idler.context.stamp())
            while idler.context.report(noise):
                pass

        yield World(idler.context, idler.turn, fill, lambda: None, lambda: _spent(session))


async def _spent(session: Session) -> list[int]:
    return [
        record.body["input_tokens"]
        for turn in await session.history()
        for record in turn.records
        if record.kind == "usage"
    ]


@pytest.fixture(params=[_stand_in, _real], ids=["stand-in", "real"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    enter: Callable[[], AbstractAsyncContextManager[World]] = request.param
    async with enter() as world:
        yield world


def usage(world: World, tokens: int) -> agent_events.UsageReported:
    return agent_events.UsageReported(turn=world.turn, usage=Usage(tokens), **world.context.stamp())


# The session -------------------------------------------------------------------------------


async def test_the_context_has_the_session_id_and_permissions(world: World) -> None:
    assert world.context.session_id.startswith("s_")
    assert world.context.workspace == "/home/me"
    assert world.context.permissions == PERMISSIONS


async def test_new_ids_are_unique_and_have_the_prefix(world: World) -> None:
    ids = [world.context.new_id("call") for _ in range(100)]
    stamps = [world.context.stamp()["fresh"] for _ in range(100)]

    assert all(made.startswith("call_") for made in ids)
    assert len({*ids, *stamps}) == 200


async def test_the_history_is_the_messages_before_the_turn(world: World) -> None:
    said = await world.context.history(world.turn)

    assert [(message.role, message.text) for message in said] == [("user", "before")]
    assert list(await world.context.prepare_turn(world.turn)) == list(said)


# Output ------------------------------------------------------------------------------------


async def test_received_text_is_the_written_agent_text(world: World) -> None:
    world.context.write_text(world.turn, "agent_text", "one ")
    world.context.write_text(world.turn, "thought", "hm")
    world.context.write_text(world.turn, "agent_text", "two", continues=False)
    world.context.write(world.turn, "plan", {"entries": []})

    assert world.context.received_text(world.turn) == "one two"


async def test_an_answer_is_written_unless_it_is_the_text_so_far(world: World) -> None:
    world.context.write_answer(world.turn, "one")
    world.context.write_answer(world.turn, "one")
    assert world.context.received_text(world.turn) == "one"

    world.context.write_answer(world.turn, "two")
    world.context.write_answer(TurnId("turn_0"), "late")
    assert world.context.received_text(world.turn) == "onetwo"


async def test_output_of_another_turn_is_dropped(world: World) -> None:
    world.context.write_text(TurnId("turn_0"), "agent_text", "late")
    world.context.write_text(TurnId("turn_0"), "agent_text", "x" * (MAX_TURN_BYTES + 1))
    world.context.write(TurnId("turn_0"), "warning", {"text": "late"})

    assert (
        world.context.received_text(world.turn),
        world.context.received_text(TurnId("turn_0")),
    ) == ("", "")


async def test_output_is_accepted_up_to_the_limit_exactly(world: World) -> None:
    world.context.write_text(world.turn, "agent_text", "é" * (MAX_TURN_BYTES // 2))

    with pytest.raises(OutputTooLarge):
        world.context.write_text(world.turn, "agent_text", "x")

    assert world.context.received_text(world.turn) == "é" * (MAX_TURN_BYTES // 2)


@pytest.mark.parametrize("kind", ["tool_update", "plan", "notice"])
async def test_other_output_counts_towards_the_limit(
    world: World, kind: Literal["tool_update", "plan", "notice"]
) -> None:
    with pytest.raises(OutputTooLarge):
        world.context.write(world.turn, kind, {"text": "x" * (MAX_TURN_BYTES + 1)})


async def test_wait_writable_is_always_a_checkpoint(world: World) -> None:
    with assert_checkpoints():
        await world.context.wait_writable()


# Reports -----------------------------------------------------------------------------------


async def test_a_reported_event_reaches_the_session(world: World) -> None:
    assert world.context.report(usage(world, 7))
    await settle()

    assert await world.spent() == [7]


async def test_reported_events_arrive_in_order_and_once_each(world: World) -> None:
    world.context.report(usage(world, 1))
    world.context.report_eventually(usage(world, 2))
    await world.context.report_when_possible(usage(world, 3))
    await settle()

    assert await world.spent() == [1, 2, 3]


async def test_report_when_possible_is_a_checkpoint(world: World) -> None:
    with assert_checkpoints():
        await world.context.report_when_possible(usage(world, 7))


async def test_report_returns_false_when_the_mailbox_is_full(world: World) -> None:
    world.fill()

    assert not world.context.report(usage(world, 7))
    world.make_room()
    await settle()

    assert await world.spent() == []


async def test_report_eventually_delivers_when_the_mailbox_has_room(world: World) -> None:
    world.fill()

    world.context.report_eventually(usage(world, 7))
    world.make_room()
    await trio.sleep(1.0)

    assert await world.spent() == [7]


async def test_report_eventually_keeps_the_order(world: World) -> None:
    world.fill()

    for tokens in range(1, 6):
        world.context.report_eventually(usage(world, tokens))
    world.make_room()
    await trio.sleep(1.0)

    assert await world.spent() == [1, 2, 3, 4, 5]


async def test_report_when_possible_waits_until_the_mailbox_has_room(
    world: World, nursery: trio.Nursery
) -> None:
    world.fill()

    nursery.start_soon(world.context.report_when_possible, usage(world, 7))
    await trio.lowlevel.checkpoint()
    world.make_room()
    await trio.sleep(1.0)

    assert await world.spent() == [7]
