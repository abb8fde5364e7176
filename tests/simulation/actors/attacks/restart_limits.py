"""Many crashes against a restart limit: never exceeded, never given up early, reported once."""

import math
import random

import trio

from actors import GaveUp, GroupSpec, Ref, RestartPolicy
from tests.simulation.actors.harness import Harness, open_harness
from tests.simulation.actors.internals import cell_of
from tests.simulation.actors.oracle import ActorHistory
from tests.simulation.actors.scripted_actor import SLOW, Behaviour
from tests.simulation.timing import random_pause

SHORT = Behaviour(start=("note", "pause"), stop=("note", "pause", "crash"))
FRAIL = Behaviour(start=("note", "note", "pause", "crash"), stop=("note", "pause", "crash"))


async def exhaust_restarts() -> None:
    has_waiter = random.random() < 0.5
    async with open_harness() as harness:
        refs = [ref for name in ("ann", "bob") if (ref := await start_one(harness, name))]
        bystander = await harness.start("eve", behaviour=SLOW)
        assert bystander is not None
        async with trio.open_nursery() as nursery:
            if has_waiter:
                for ref in refs:
                    nursery.start_soon(wait_for, harness, ref)
                await harness.quiet()  # the waiters now wait
            for ref in refs:
                nursery.start_soon(crash_repeatedly, harness, ref)
        await harness.quiet()
    for ref in refs:
        check_budget(harness, harness.oracle.by_cell[cell_of(ref)])
    check_escalation(harness, refs, has_waiter=has_waiter)
    eve = harness.oracle.by_cell[cell_of(bystander)]
    harness.oracle.check(eve.made == 1 and not eve.own_ends, "a bystander was restarted or ended")
    harness.oracle.close()


async def start_one(harness: Harness, name: str) -> Ref | None:
    within_seconds = random.choice((0.5, 1.5, math.inf))
    policy = RestartPolicy(
        random.choice(("permanent", "transient")),
        max_restarts=random.randrange(3),
        within_seconds=within_seconds,
        backoff_seconds=random.choice((0.0, 0.5)),
    )
    # A failed restart counts when its supervisor is notified, and time may have jumped until then:
    # so starts succeed where instants matter.
    behaviour = FRAIL if within_seconds == math.inf else SHORT
    return await harness.start(name, behaviour=behaviour, policy=policy)


async def crash_repeatedly(harness: Harness, ref: Ref) -> None:
    for _ in range(5):
        harness.tell(ref, random.choice(("crash", "crash", "note", "quit")))
        await random_pause()
    await harness.stop(ref)


async def wait_for(harness: Harness, ref: Ref) -> None:
    try:
        await ref.wait_stopped()
    except GaveUp as gave_up:
        harness.oracle.check(
            gave_up.name == ref.name, f"{ref.name} received the end of {gave_up.name}"
        )


def check_budget(harness: Harness, history: ActorHistory) -> None:
    """Check that restarts stayed within the limit and that giving up exceeded it."""
    policy, cell = history.policy, history.cell
    assert cell is not None
    restarted_at = history.ended_at[: history.made - 1]
    for place, now in enumerate(restarted_at, 1):
        spent = sum(now - at <= policy.within_seconds for at in restarted_at[:place])
        harness.oracle.check(
            spent <= policy.max_restarts,
            f"{history.name} restarted {spent} times within {policy.within_seconds} s",
        )
    if isinstance(cell.reason, GaveUp):
        last = history.ended_at[-(policy.max_restarts + 1) :]
        spent = sum(last[-1] - at <= policy.within_seconds for at in last)
        harness.oracle.check(spent > policy.max_restarts, f"{history.name} was given up too soon")


def check_escalation(harness: Harness, refs: list[Ref], *, has_waiter: bool) -> None:
    given_up = [ref.name for ref in refs if isinstance(cell_of(ref).reason, GaveUp)]
    escalated = harness.escalated
    if escalated is None:
        harness.oracle.check(
            has_waiter or not given_up, f"{given_up} gave up and no one was notified"
        )
    else:
        harness.oracle.check(
            escalated.name in given_up, f"{escalated.name} escalated and had not given up"
        )
        harness.oracle.check(
            not has_waiter, f"{escalated.name} escalated although a task waits for it"
        )


async def exhaust_nested_restarts() -> None:
    """Check that an inner group that gives up is exactly one end for the outer group."""
    inner_max, outer_max = random.randrange(3), random.randrange(2)
    async with open_harness() as harness:
        inner = GroupSpec(
            [harness.spec(name, behaviour=SLOW) for name in "ab"],
            strategy=random.choice(("one_for_one", "one_for_all", "rest_for_one")),
            max_restarts=inner_max,
            within_seconds=math.inf,
        )
        outer = GroupSpec(
            [harness.spec("c", behaviour=SLOW), harness.member("inner", inner)],
            strategy=random.choice(("one_for_one", "one_for_all", "rest_for_one")),
            max_restarts=outer_max,
            within_seconds=math.inf,
        )
        top = await harness.start_group("outer", outer, within=harness.system)
        assert top is not None
        async with trio.open_nursery() as nursery:
            for name in "ab":
                nursery.start_soon(crash_often, harness, top.group("inner")[name])
        await harness.quiet()
    members = [history for history in harness.oracle.histories if history.name in "ab"]
    crashes = sum(history.own_ends for history in members)
    allowed = (inner_max + 1) * (outer_max + 1)
    if harness.escalated is not None:
        harness.oracle.check(
            harness.escalated.name == "outer", f"{harness.escalated.name} escalated"
        )
        harness.oracle.check(crashes >= allowed, f"given up after {crashes} ends of {allowed}")
    for history in members:
        harness.oracle.check(
            history.made <= allowed, f"{history.name} was made {history.made} times"
        )
    harness.oracle.close()


async def crash_often(harness: Harness, ref: Ref) -> None:
    for _ in range(4):
        harness.tell(ref, "crash")
        await random_pause()
