"""A requested stop at every moment of a lifecycle is final and is not a crash.

The child under test, an actor or a group, is permanent and is in a group that would give up at
the very next restart; so a stop that is counted as a crash, or undone, shows.
"""

from collections.abc import Awaitable, Callable

import pytest
import trio

from actors import ChildSpec, Ended, Group, GroupSpec, Killed, Ref, Stopped
from actors.testing import Probe, explore, settle
from tests.support.fake_actors import (
    ActorLog,
    crash,
    factory_sequence,
    fake_actor,
    lines_with,
    run_in_system,
    work,
)

Child = Ref | Group
Moment = Callable[[Group, ActorLog, str], Awaitable[Child]]


def spec(kind: str, make: Callable[[], object]) -> ChildSpec:
    """Return a permanent child called x: the actor that `make` returns, or a group of it alone."""
    if kind == "actor":
        return ChildSpec("x", make, restart="permanent")  # type: ignore[arg-type]
    inside = GroupSpec([ChildSpec("member", make)], max_restarts=0)  # type: ignore[arg-type]
    return ChildSpec("x", inside, restart="permanent")


def child_of(outer: Group, kind: str) -> Child:
    return outer["x"] if kind == "actor" else outer.group("x")


def crash_it(outer: Group, kind: str) -> None:
    (outer["x"] if kind == "actor" else outer.group("x")["member"]).tell(crash)


async def running(system: Group, actor_log: ActorLog, kind: str) -> Child:
    outer = await system.start_group(
        [spec(kind, fake_actor(actor_log))], name="outer", max_restarts=0
    )
    return child_of(outer, kind)


async def in_back_off(system: Group, actor_log: ActorLog, kind: str) -> Child:
    outer = await system.start_group(
        [spec(kind, fake_actor(actor_log))], name="outer", max_restarts=1, backoff_seconds=60.0
    )
    crash_it(outer, kind)
    await settle()
    return child_of(outer, kind)


async def being_launched_again(system: Group, actor_log: ActorLog, kind: str) -> Child:
    slow_again = factory_sequence(fake_actor(actor_log), fake_actor(actor_log, on_start=work(1)))
    outer = await system.start_group([spec(kind, slow_again)], name="outer", max_restarts=1)
    crash_it(outer, kind)
    await settle()
    return child_of(outer, kind)


async def being_halted(system: Group, actor_log: ActorLog, kind: str) -> Child:
    outer = await system.start_group(
        [ChildSpec("other", fake_actor()), spec(kind, fake_actor(actor_log, on_stop=work(1)))],
        name="outer",
        strategy="one_for_all",
        max_restarts=1,
    )
    outer["other"].tell(crash)
    await settle()
    return child_of(outer, kind)


MOMENTS: dict[str, Moment] = {
    "running": running,
    "in back-off": in_back_off,
    "being launched again": being_launched_again,
    "being halted": being_halted,
}

everywhere = pytest.mark.parametrize("moment", MOMENTS)
both_kinds = pytest.mark.parametrize("kind", ["actor", "group"])


async def stop_at(system: Group, actor_log: ActorLog, kind: str, moment: str) -> None:
    child = await MOMENTS[moment](system, actor_log, kind)
    probe = await Probe.start(system)
    probe.ref.watch(child)
    before = len(lines_with(actor_log, "starts"))

    await child.stop()
    await settle()

    assert isinstance(await child.wait_stopped(), (Stopped, Killed))
    assert [type(message) for message in probe.messages] == [Ended]
    assert system.group("outer").statistics().state == "running"
    assert len(lines_with(actor_log, "starts")) == before


@everywhere
@both_kinds
async def test_a_stop_is_never_a_crash(
    system: Group, actor_log: ActorLog, kind: str, moment: str
) -> None:
    await stop_at(system, actor_log, kind, moment)
    await trio.sleep(120)

    assert system.group("outer").statistics().state == "running"


@everywhere
@both_kinds
def test_a_stop_is_never_a_crash_in_any_order_of_events(kind: str, moment: str) -> None:
    async def play(system: Group) -> None:
        await stop_at(system, [], kind, moment)

    assert explore(run_in_system, play, seeds=range(60)) == []


@both_kinds
async def test_a_stop_during_the_first_start_calls_that_off(
    system: Group, actor_log: ActorLog, kind: str
) -> None:
    slow = spec(kind, fake_actor(actor_log, on_start=work(1)))
    others = [
        ChildSpec("first", fake_actor(actor_log)),
        slow,
        ChildSpec("last", fake_actor(actor_log)),
    ]

    async with trio.open_nursery() as nursery:

        async def begin() -> None:
            await system.start_group(others, name="outer", max_restarts=0)

        nursery.start_soon(begin)
        await settle()
        await child_of(system.group("outer"), kind).stop()

    assert system.group("outer").statistics().running == 2
