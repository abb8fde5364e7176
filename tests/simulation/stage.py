"""Where an attack plays: the real runtime, and verbs that hold it to its word at every call."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVarTuple

import attrs
import trio

import actors
from actors import ChildSpec, GaveUp, Group, GroupSpec, Ref, RestartPolicy
from actors._restart import RestartKind
from actors.testing import settle

from .inside import cell_of, group_of, has_incarnation, is_over, news_inside, unwrap
from .ledger import Ledger, Life, Watchman
from .player import GENTLE, Answer, Boom, Deed, Player, Temper, write

Args = TypeVarTuple("Args")

STEADY = RestartPolicy("permanent", max_restarts=1_000)


@attrs.define(eq=False)
class Stage:
    """One program's system, its ledger, and what can be done to both."""

    system: Group
    ledger: Ledger
    climbed: GaveUp | None = None

    # Starting ---------------------------------------------------------------------------

    def make(
        self, name: str, *, temper: Temper = GENTLE, policy: RestartPolicy = STEADY
    ) -> tuple[Life, Callable[[], Player]]:
        """A life that has not begun, and what makes its incarnations."""
        life = self.ledger.life(name, policy)
        return life, lambda: Player(self.ledger, life, temper)

    def spec(
        self,
        name: str,
        *,
        temper: Temper = GENTLE,
        kind: RestartKind = "permanent",
        capacity: int = 3,
        shutdown_seconds: float = 3.0,
    ) -> ChildSpec:
        """One member of a group."""
        _, make = self.make(name, temper=temper, policy=RestartPolicy(kind))
        return ChildSpec(
            name, make, restart=kind, capacity=capacity, shutdown_seconds=shutdown_seconds
        )

    def member(self, name: str, spec: GroupSpec) -> ChildSpec:
        """A group as a member of another one."""
        return ChildSpec(name, spec, restart="permanent")

    async def start(
        self,
        name: str,
        *,
        group: Group | None = None,
        temper: Temper = GENTLE,
        policy: RestartPolicy = STEADY,
        capacity: int = 3,
        shutdown_seconds: float = 3.0,
    ) -> Ref | None:
        """Start one; it is up, or nothing of it is left. None stands for a failed start."""
        group = group or self.system
        life, make = self.make(name, temper=temper, policy=policy)
        try:
            ref = await group.start(
                make,
                name=name,
                restart=policy,
                capacity=capacity,
                shutdown_seconds=shutdown_seconds,
            )
        except (Boom, actors.ActorStopped):
            self._check_nothing_left(group, life)
            return None
        except actors.NameTaken:
            self.ledger.check(life.made == 0, f"{name} was refused its name and made")
            raise
        except trio.Cancelled:
            self._check_nothing_left(group, life)
            raise
        self.ledger.check(life.started > 0, f"{name} was reported up before it was")
        return ref

    def _check_nothing_left(self, group: Group, life: Life) -> None:
        cell = life.cell
        self.ledger.check(life.alive == 0, f"{life.name} failed to start and is alive")
        if cell is not None:
            self.ledger.check(cell.reason is not None, f"{life.name} failed to start, not over")
            listed = group_of(group).find(life.name) is cell
            self.ledger.check(not listed, f"{life.name} failed to start and is listed")
        life.made_at_most = life.made

    async def start_group(self, name: str, spec: GroupSpec, *, within: Group) -> Group | None:
        """Start a group; all of it is up, or nothing of it is left."""
        try:
            return await within.start_group(
                spec.children,
                name=name,
                strategy=spec.strategy,
                max_restarts=spec.max_restarts,
                within_seconds=spec.within_seconds,
                backoff_seconds=spec.backoff_seconds,
                stop_order=spec.stop_order,
            )
        except (Boom, actors.ActorStopped):
            self._check_no_member_left(name, spec, within)
            return None
        except trio.Cancelled:
            self._check_no_member_left(name, spec, within)
            raise

    def _check_no_member_left(self, name: str, spec: GroupSpec, within: Group) -> None:
        members = {child.name for child in spec.children}
        alive = [life.name for life in self.ledger.lives if life.name in members and life.alive]
        self.ledger.check(not alive, f"{name} failed to start and {alive} are alive")
        self.ledger.check(name not in within, f"{name} failed to start and is listed")

    # Writing ----------------------------------------------------------------------------

    def tell(self, ref: Ref, deed: Deed, *, urgent: bool = False, to: Ref | None = None) -> bool:
        """Whether the message was taken in."""
        return write(self.ledger, ref, deed, urgent=urgent, to=to)

    async def ask(self, ref: Ref, deed: Deed, *, timeout_seconds: float = 3.0) -> None:
        """Ask, and see that the ask ends as one of the five ways an ask may end."""
        life = self.ledger.by_cell[cell_of(ref)]
        question = Answer(self.ledger.next_number(), deed, urgent=random.random() < 0.2)
        number, asked_at = question.number, trio.current_time()
        try:
            answer = await ref.ask(
                question, timeout_seconds=timeout_seconds, urgent=question.urgent
            )
        except Boom as boom:
            self.ledger.check(boom.number == number, f"ask {number} got {boom.number}'s error")
        except actors.ActorStopped:
            closed = cell_of(ref).mailbox.closed
            self.ledger.check(
                closed or number in life.cut_short, f"ask {number} was told of no true end"
            )
        except actors.AskTimeout:
            waited = trio.current_time() - asked_at
            # Rounding: adding and subtracting an instant does not give the same float back.
            early = waited < timeout_seconds - 1e-6
            self.ledger.check(not early, f"ask {number} timed out too early")
        except actors.MailboxFull as full:
            self.ledger.check(unwrap(full.message) is question, f"ask {number} is not given back")
        else:
            self.ledger.check(answer == number, f"ask {number} got the answer {answer}")
            self.ledger.check(number in life.received, f"ask {number} was never received")

    # Stopping ---------------------------------------------------------------------------

    def stop_nowait(self, ref: Ref) -> None:
        """A user's stop: from here on it never comes back, and from back-off it is over at once."""
        cell = cell_of(ref)
        life = self.ledger.by_cell[cell]
        self.ledger.note(f"{life.name} is asked to stop")
        unmade = has_incarnation(cell) and not life.alive
        if life.made_at_most is None:
            life.made_at_most = life.made + unmade
        ref.stop_nowait()
        self.ledger.check(cell.mailbox.closed, f"{life.name} was stopped and takes messages")
        if not has_incarnation(cell):
            self.ledger.check(cell.reason is not None, f"{life.name} was down and is not over")

    async def stop(self, ref: Ref) -> None:
        """The same, and wait: then nothing of it is left."""
        self.stop_nowait(ref)
        await ref.stop()
        life = self.ledger.by_cell[cell_of(ref)]
        self.ledger.check(not life.alive, f"{life.name} was stopped and is alive")
        self.ledger.check(cell_of(ref).reason is not None, f"{life.name} was stopped, not over")

    async def stop_group(self, group: Group) -> None:
        """Stop all of a group, and see that nothing of it is left."""
        self.ledger.note(f"{group.name} is asked to stop")
        self.ledger.stopped.add(group_of(group))
        await group.stop()
        self.ledger.check(
            not self.ledger.anything_alive_under(group_of(group)),
            f"{group.name} left someone alive",
        )

    def watch(self, watcher: Ref, other: Ref | Group) -> None:
        """Watch; the ledger then waits for exactly one piece of news.

        Whoever watches what is over is told at once, each time: that watch is over with it.
        """
        life = self.ledger.by_cell[cell_of(watcher)]
        try:
            watcher.watch(other)
        except actors.ActorStopped:
            return
        if is_over(other) or other not in life.watches:
            life.watches.append(other)

    def unwatch(self, watcher: Ref, other: Ref | Group) -> None:
        """Take it back; news on its way still arrives."""
        life = self.ledger.by_cell[cell_of(watcher)]
        watcher.unwatch(other)
        underway = any(news.ref is other for news in news_inside(cell_of(watcher)))
        if other in life.watches and not underway:
            life.watches.remove(other)

    async def quiet(self) -> None:
        """Wait until nobody can run, and see that nobody should."""
        await settle()
        self.ledger.look_when_quiet()


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """Open the runtime under watch; on the way out everything must be over and accounted for.

    A `GaveUp` that climbs out is caught, and kept as `climbed` for the attack to judge.
    """
    ledger = Ledger()
    stage: Stage | None = None
    watchman = Watchman(ledger)
    trio.lowlevel.add_instrument(watchman)
    try:
        async with actors.open_actors() as system:
            ledger.root = group_of(system)
            stage = Stage(system, ledger)
            yield stage
    except GaveUp as gave_up:
        assert stage is not None
        stage.climbed = gave_up
    trio.lowlevel.remove_instrument(watchman)
    ledger.close()


async def wander() -> None:
    """Let others go first, for a random while."""
    match random.randrange(4):
        case 0:
            pass
        case 1 | 2:
            await trio.lowlevel.checkpoint()
        case _:
            await trio.sleep(random.choice((0.25, 0.75, 1.5, 3.0)))


async def impatiently(do: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
    """Do it, but give up after a while that may be over before it began."""
    with trio.move_on_after(random.choice((0.0, 0.5, 1.0, 2.0, 5.0, 50.0))):
        await do(*args)
