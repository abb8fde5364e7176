"""The supervisor exits during work: cleanly, drained, with an error, or cancelled."""

import contextlib
import random

import attrs
import trio

from supervisor import Ladder, Session, Settings, Supervisor, SupervisorError
from tests.simulation.harness import Harness, open_harness, watch
from tests.simulation.scripted_agents import ROUGH
from tests.simulation.timing import random_pause


class ExitError(Exception):
    """Raised inside the block of the supervisor."""


@attrs.define
class SupervisorRun:
    """One supervisor from its start to its exit."""

    how: str
    exit_seconds: float
    sessions: list[Session] = attrs.Factory(list)
    began: float = 0.0

    async def run(self, outside: trio.Nursery) -> Harness:
        settings = Settings(
            exit_seconds=self.exit_seconds,
            ladder=Ladder(ask_seconds=1.0),
            permission_timeout_seconds=2.0,
        )
        opened: list[Harness] = []
        with trio.CancelScope() as scope, contextlib.suppress(ExitError):
            async with open_harness(settings=settings, outside=outside) as harness:
                opened.append(harness)
                self.sessions = [await harness.sup.create("simulated") for _ in range(2)]
                for session in self.sessions:
                    outside.start_soon(send_from_outside, harness, session)
                    outside.start_soon(send_from_outside, harness, session)
                    outside.start_soon(watch_from_outside, harness, session)
                await random_pause()
                await random_pause()
                self.began = trio.current_time()
                await leave(harness.sup, self.how, scope)
        return opened[0]


async def leave(sup: Supervisor, how: str, scope: trio.CancelScope) -> None:
    """Start the exit of the supervisor; its block ends after this."""
    match how:
        case "drained":
            await sup.drain()
        case "with an error":
            raise ExitError
        case "cancelled":
            scope.cancel()
            await trio.lowlevel.checkpoint()


async def exit_during_work() -> None:
    how = random.choice(("cleanly", "with an error", "cancelled", "drained"))
    run = SupervisorRun(how, exit_seconds=random.choice((0.5, 5.0)))
    async with trio.open_nursery() as outside:
        harness = await run.run(outside)
        await check_exited(harness, run.sessions)
        if how == "cleanly" and trio.current_time() - run.began < run.exit_seconds:
            check_all_at_rest(harness)
    harness.oracle.close()


async def send_from_outside(harness: Harness, session: Session) -> None:
    """Keep sending from outside, also after the exit."""
    for _ in range(4):
        text = harness.text(*random.choices((*ROUGH, "hang"), k=2))
        if random.random() < 0.5:
            await harness.prompt(session, text)
        else:
            await harness.send(session, text, when_busy=random.choice(("queue", "interrupt")))
        await random_pause()


async def watch_from_outside(harness: Harness, session: Session) -> None:
    await watch(harness, session, items=1_000)
    await random_pause()
    await harness.stop(session)


async def check_exited(harness: Harness, sessions: list[Session]) -> None:
    for session in sessions:
        answer = await harness.attempt(session.send(harness.text()))
        refused = isinstance(answer, SupervisorError)
        harness.oracle.check(refused, "an input was accepted after the exit")


def check_all_at_rest(harness: Harness) -> None:
    """Check that all sessions are at rest: there was enough time for each."""
    for history in harness.oracle.histories.values():
        harness.oracle.check(history.turn is None, f"{history.turn} is open after a clean exit")
        assert history.row is not None
        harness.oracle.check(
            history.row.phase in ("suspended", "stopped"),
            f"{history.id} is {history.row.phase} at the end",
        )
