"""The stand-in of office.py and the office that sessions have keep the same promises.

See `port.Office`. So what the other tests of this folder find with the one holds for the other.
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
from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.session import Decision, LadderStep, Usage
from supervisor.drivers.port import Office, Workshop
from supervisor.drivers.python import ATTACHED
from tests.drivers.office import StandInOffice

MAX_TURN_BYTES = 1000
PERMISSIONS = Permissions(tools=frozenset({"ls"}), mode="approve_all")


class Idler:
    """An agent, and its driver, that does nothing; it holds what the session gave it."""

    name = "idler"
    runs_process = False
    office: Office
    turn: TurnId

    def make_driver(self, office: Office, workshop: Workshop) -> Idler:
        self.office = office
        return self

    def start(self) -> None:
        self.office.report_surely(ev.AgentAttached(agent=ATTACHED, **self.office.stamp()))

    def start_turn(self, order: StartTurn) -> None:
        self.turn = order.turn

    def adopt_turn(self, order: AdoptTurn) -> None: ...

    def offer_steering(self, offer: OfferSteering) -> None: ...

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None: ...

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        self.office.report_surely(
            ev.TurnEnded(turn=turn, outcome="interrupted", **self.office.stamp())
        )

    def abandon_turn(self, turn: TurnId) -> None: ...

    def cancel_call(self, turn: TurnId, call: CallId) -> None: ...

    def end_background(self) -> None: ...

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None: ...

    def close(self) -> None:
        self.office.report_surely(ev.AgentClosed(**self.office.stamp()))

    def hindrance(self) -> None: ...

    def drop(self) -> None: ...


@attrs.frozen
class World:
    """An office in the middle of a turn, and how to look at what got through."""

    office: Office
    turn: TurnId
    fill: Callable[[], None]
    make_room: Callable[[], None]
    spent: Callable[[], Any]


@asynccontextmanager
async def _stand_in() -> AsyncIterator[World]:
    past = [Message("user", "before", 0.0)]
    office = StandInOffice(
        workspace="/home/me",
        permissions=PERMISSIONS,
        max_turn_bytes=MAX_TURN_BYTES,
        past=past,
    )
    office.begin(TurnId("turn_1"))

    async def spent() -> list[int]:
        return [report.usage.input_tokens for report in office.all(ev.UsageReported)]

    yield World(office, TurnId("turn_1"), office.fill, office.make_room, spent)


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
            noise = ev.ZombieEnded(turn=TurnId("turn_0"), **idler.office.stamp())
            while idler.office.report(noise):
                pass

        yield World(idler.office, idler.turn, fill, lambda: None, lambda: _spent(session))


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


def usage(world: World, tokens: int) -> ev.UsageReported:
    return ev.UsageReported(turn=world.turn, usage=Usage(tokens), **world.office.stamp())


# The session -------------------------------------------------------------------------------


async def test_it_says_whose_it_is_and_what_may_be_touched(world: World) -> None:
    assert world.office.session_id.startswith("s_")
    assert world.office.workspace == "/home/me"
    assert world.office.permissions == PERMISSIONS


async def test_its_ids_are_new_and_say_what_they_are_for(world: World) -> None:
    ids = [world.office.new_id("call") for _ in range(100)]
    stamps = [world.office.stamp()["fresh"] for _ in range(100)]

    assert all(made.startswith("call_") for made in ids)
    assert len({*ids, *stamps}) == 200


async def test_its_history_is_what_was_said_before_the_turn(world: World) -> None:
    said = await world.office.history(world.turn)

    assert [(message.role, message.text) for message in said] == [("user", "before")]


# Output ------------------------------------------------------------------------------------


async def test_what_was_said_is_what_was_written_as_the_agents_text(world: World) -> None:
    world.office.write_text(world.turn, "agent_text", "one ")
    world.office.write_text(world.turn, "thought", "hm")
    world.office.write_text(world.turn, "agent_text", "two", continues=False)
    world.office.write(world.turn, "plan", {"entries": []})

    assert world.office.said(world.turn) == "one two"


async def test_output_of_another_turn_goes_nowhere(world: World) -> None:
    world.office.write_text(TurnId("turn_0"), "agent_text", "late")
    world.office.write_text(TurnId("turn_0"), "agent_text", "x" * (MAX_TURN_BYTES + 1))
    world.office.write(TurnId("turn_0"), "warning", {"text": "late"})

    assert (world.office.said(world.turn), world.office.said(TurnId("turn_0"))) == ("", "")


async def test_a_turn_may_put_out_as_much_as_it_may_and_not_a_byte_more(world: World) -> None:
    world.office.write_text(world.turn, "agent_text", "é" * (MAX_TURN_BYTES // 2))

    with pytest.raises(OutputTooLarge):
        world.office.write_text(world.turn, "agent_text", "x")

    assert world.office.said(world.turn) == "é" * (MAX_TURN_BYTES // 2)


@pytest.mark.parametrize("kind", ["tool_update", "plan", "warning"])
async def test_other_output_counts_too(
    world: World, kind: Literal["tool_update", "plan", "warning"]
) -> None:
    with pytest.raises(OutputTooLarge):
        world.office.write(world.turn, kind, {"text": "x" * (MAX_TURN_BYTES + 1)})


async def test_waiting_for_room_is_a_checkpoint_even_when_there_is_some(world: World) -> None:
    with assert_checkpoints():
        await world.office.wait_for_room()


# Reports -----------------------------------------------------------------------------------


async def test_a_report_is_heard(world: World) -> None:
    assert world.office.report(usage(world, 7))
    await settle()

    assert await world.spent() == [7]


async def test_reports_are_heard_in_order_and_once_each(world: World) -> None:
    world.office.report(usage(world, 1))
    world.office.report_surely(usage(world, 2))
    await world.office.report_soon(usage(world, 3))
    await settle()

    assert await world.spent() == [1, 2, 3]


async def test_reporting_soon_is_a_checkpoint(world: World) -> None:
    with assert_checkpoints():
        await world.office.report_soon(usage(world, 7))


async def test_a_session_without_room_is_not_told(world: World) -> None:
    world.fill()

    assert not world.office.report(usage(world, 7))
    world.make_room()
    await settle()

    assert await world.spent() == []


async def test_a_session_without_room_is_told_surely_as_soon_as_it_has_some(world: World) -> None:
    world.fill()

    world.office.report_surely(usage(world, 7))
    world.make_room()
    await trio.sleep(1.0)

    assert await world.spent() == [7]


async def test_what_is_reported_surely_keeps_its_order(world: World) -> None:
    world.fill()

    for tokens in range(1, 6):
        world.office.report_surely(usage(world, tokens))
    world.make_room()
    await trio.sleep(1.0)

    assert await world.spent() == [1, 2, 3, 4, 5]


async def test_who_reports_soon_waits_until_the_session_has_room(
    world: World, nursery: trio.Nursery
) -> None:
    world.fill()

    nursery.start_soon(world.office.report_soon, usage(world, 7))
    await trio.lowlevel.checkpoint()
    world.make_room()
    await trio.sleep(1.0)

    assert await world.spent() == [7]
