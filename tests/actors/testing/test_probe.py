"""The probe: an actor that keeps the messages it receives."""

import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

import actors
from actors import (
    Group,
)
from actors.testing import Probe, settle


@frozen
class Double(actors.Ask[int]):
    n: int


async def test_a_probe_keeps_all_messages_in_order() -> None:
    async with actors.open_actors() as system:
        probe = await Probe.start(system, name="probe")
        for n in range(3):
            system["probe"].tell(n)
        await settle()

        assert probe.messages == [0, 1, 2]
        assert probe.unread == (0, 1, 2)


async def test_next_waits_and_returns_each_message_once() -> None:
    async with actors.open_actors() as system, trio.open_nursery() as nursery:
        probe = await Probe.start(system)
        nursery.start_soon(tell_later, probe.ref, "a", "b")

        assert await probe.next() == "a"
        assert await probe.next() == "b"
        assert probe.unread == ()


async def tell_later(ref: actors.Ref, *messages: object) -> None:
    for message in messages:
        await settle()
        ref.tell(message)


async def test_until_skips_to_the_first_of_its_kind() -> None:
    async with actors.open_actors() as system:
        probe = await Probe.start(system)
        for message in ("a", 1, "b"):
            probe.ref.tell(message)

        assert await probe.until(int) == 1
        assert await probe.next() == "b"


async def test_a_probe_can_watch_another_actor() -> None:
    async with actors.open_actors() as system:
        probe = await Probe.start(system)
        other = await Probe.start(system)
        probe.ref.watch(other.ref)
        await other.ref.stop()

        assert (await probe.until(actors.Ended)).ref is other.ref


async def test_a_probe_answers_with_its_answer_callable() -> None:
    async with actors.open_actors() as system:
        probe = await Probe.start(system, answer=lambda message: message.n * 2)

        assert await probe.ref.ask(Double(21)) == 42


async def test_a_missing_message_is_reported_with_the_received_messages(
    autojump_clock: MockClock,
) -> None:
    async with actors.open_actors() as system:
        probe = await Probe.start(system)
        probe.ref.tell("something else")

        with pytest.raises(AssertionError, match=r"int did not arrive .* \['something else'\]"):
            await probe.until(int)
        assert probe.unread == ("something else",)


async def test_each_message_goes_to_one_waiter_of_a_probe(system: Group) -> None:
    probe = await Probe.start(system)
    got: list[object] = []

    async def wait() -> None:
        got.append(await probe.next())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await settle()
        probe.ref.tell(1)
        await settle()
        probe.ref.tell(2)

    assert sorted(got, key=str) == [1, 2]
