"""Every async function passes a checkpoint, and does nothing if cancelled beforehand."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
import trio
import trio.testing

from actors import Actor, Group, Ref, open_actors
from actors.testing import settle
from tests.support.fake_actors import (
    ActorLog,
    Do,
    FakeActor,
    Say,
    fake_actor,
    fake_actor_specs,
    work,
)

Deed: TypeAlias = Callable[[Group, Ref], Awaitable[object]]


@pytest.fixture
async def ref(system: Group, actor_log: ActorLog) -> Ref:
    return await system.start(fake_actor(actor_log), name="a")


async def stop_it_twice(_: Group, ref: Ref) -> None:
    await ref.stop()
    with trio.testing.assert_checkpoints():
        await ref.stop()


async def wait_for_the_stopped(_: Group, ref: Ref) -> None:
    await ref.stop()
    with trio.testing.assert_checkpoints():
        await ref.wait_stopped()


async def stop_a_group_twice(system: Group, _: Ref) -> None:
    group = await system.start_group([])
    for wait in (group.stop, group.stop, group.wait_stopped):
        with trio.testing.assert_checkpoints():
            await wait()


EVERYTHING: dict[str, Deed] = {
    "ask": lambda _, ref: ref.ask(Say("hello")),
    "ask for work": lambda _, ref: ref.ask(Do(work(1))),
    "stop": lambda _, ref: ref.stop(),
    "stop the stopped": stop_it_twice,
    "wait for the stopped": wait_for_the_stopped,
    "start": lambda system, _: system.start(FakeActor),
    "start the plainest": lambda system, _: system.start(Actor),
    "start a group": lambda system, _: system.start_group(fake_actor_specs([], "x", "y")),
    "start an empty group": lambda system, _: system.start_group([]),
    "stop the root": lambda system, _: system.stop(),
    "stop a group twice": stop_a_group_twice,
}

HARMLESS_WHEN_CANCELLED_BEFORE: dict[str, Deed] = {
    "ask": lambda _, ref: ref.ask(Say("hello")),
    "stop": lambda _, ref: ref.stop(),
    "wait_stopped": lambda _, ref: ref.wait_stopped(),
    "start": lambda system, _: system.start(FakeActor, name="new"),
    "start_group": lambda system, _: system.start_group(fake_actor_specs([], "x"), name="new"),
    "group stop": lambda system, _: system.stop(),
}


@pytest.mark.parametrize("name", EVERYTHING)
async def test_every_public_async_function_passes_a_checkpoint(
    system: Group, ref: Ref, name: str
) -> None:
    with trio.testing.assert_checkpoints():
        await EVERYTHING[name](system, ref)


@pytest.mark.parametrize("name", HARMLESS_WHEN_CANCELLED_BEFORE)
async def test_a_call_cancelled_beforehand_has_no_effect(
    system: Group, ref: Ref, actor_log: ActorLog, name: str
) -> None:
    before = (system.statistics(), ref.statistics(), list(actor_log))

    with trio.CancelScope() as scope:
        scope.cancel()
        await HARMLESS_WHEN_CANCELLED_BEFORE[name](system, ref)
    await settle()

    assert scope.cancelled_caught
    assert (system.statistics(), ref.statistics(), actor_log) == before


async def test_open_actors_passes_a_checkpoint() -> None:
    services = open_actors()

    with trio.testing.assert_checkpoints():
        await services.__aenter__()
    with trio.testing.assert_checkpoints():
        await services.__aexit__(None, None, None)


async def test_tell_watch_and_statistics_never_pass_a_checkpoint(system: Group, ref: Ref) -> None:
    other = await system.start(FakeActor)

    with trio.testing.assert_no_checkpoints():
        ref.tell("hello")
        ref.watch(other)
        ref.unwatch(other)
        ref.statistics()
        system.statistics()
        other.stop_nowait()
