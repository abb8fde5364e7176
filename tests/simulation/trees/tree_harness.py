"""Harness for attacks on trees: the harness of sessions, and random actions on trees."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from actors.testing import settle
from supervisor import (
    Info,
    Ladder,
    Limits,
    Record,
    Session,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.drivers.turn import CURRENT_SESSION
from tests.simulation.harness import Harness, open_harness
from tests.simulation.timing import random_pause, with_random_timeout

from .spawn_options import (
    BUSY,
    ROOT_PERMISSIONS,
    random_actions,
    random_restart,
    random_spawn_options,
)
from .tree_agents import ScriptedTreeAgents, check_refusal
from .tree_counts import ExpectedNode, widened
from .tree_oracle import TreeOracle

# Longer than every wait of the attacks.
LONG_SECONDS = 40.0
SMALL = Limits(max_depth=3, max_children=3, max_descendants=7, max_spawns=14)


@attrs.define(eq=False)
class TreeHarness:
    """The supervisor of one run, and random actions on its trees."""

    sessions: Harness
    oracle: TreeOracle
    scripted: ScriptedTreeAgents
    sup: Supervisor
    # Sessions whose limits are being raised.
    raising: set[str] = attrs.Factory(set)

    def text(self) -> str:
        return self.sessions.text(*random_actions(self.scripted.actions))

    async def create_root(self, **options: Any) -> Session:  # noqa: ANN401
        """Create a root session."""
        given = {
            "limits": SMALL,
            "permissions": ROOT_PERMISSIONS,
            "workspace": "/w",
            "restart": random.choice((None, random_restart())),  # inherited by its descendants
            **options,
        }
        return await self.sup.create("simulated", **given)

    async def add_children(self, root: Session) -> None:
        """Spawn two children and some grandchildren concurrently, some with random options."""
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(self._add_branch, root)

    async def _add_branch(self, root: Session) -> None:
        child = await self.spawn(root, **random.choice(({}, random_spawn_options())))
        if child is not None and random.random() < 0.7:
            await self.spawn(child, **random.choice(({}, random_spawn_options())))

    def random_session(self, *, live: bool = True) -> Session | None:
        """Return a random existing session; None without one."""
        nodes = [node for node in self.oracle.nodes.values() if not node.is_deleted]
        wanted = [node for node in nodes if node.is_live is live] or nodes
        return self.sup.session(random.choice(wanted).id) if wanted else None

    def node(self, session: Session) -> ExpectedNode | None:
        return self.oracle.nodes.get(session.id)

    # Actions ----------------------------------------------------------------------------------

    async def spawn(self, parent: Session, **options: Any) -> Session | None:  # noqa: ANN401
        text = self.sessions.text(*random_actions(self.scripted.actions))
        answer = await self.sessions.attempt(parent.spawn("simulated", text, **options))
        if isinstance(answer, SupervisorError):
            check_refusal(self.oracle, answer)
            return None
        node = self.node(answer)
        there = node is not None and node.parent is not None and node.parent.id == parent.id
        self.oracle.check(there, f"{answer.id} was spawned and does not exist")
        return answer

    async def act_once(self, *actions: str) -> None:
        """Perform one of the actions on a random session."""
        action = random.choice(actions)
        session = self.random_session(live=action not in ("resume", "send_stopped"))
        if session is not None:
            await getattr(self, f"_{action}")(session)

    async def _spawn(self, session: Session) -> None:
        await self.spawn(session, **random_spawn_options())

    async def _spawn_twice(self, session: Session) -> None:
        """Spawn twice with one key; check for at most one child."""
        options = {**random_spawn_options(), "idempotency_key": "spawn_twice"}
        text = self.scripted.text("say")
        made: list[str] = []

        async def ask() -> None:
            answer = await self.sessions.attempt(session.spawn("simulated", text, **options))
            if isinstance(answer, Session):
                made.append(answer.id)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask)
        alive = {one for one in made if one not in self.oracle.deleted_ids}
        self.oracle.check(len(alive) < 2, f"one key created {alive}")

    async def _stop(self, session: Session) -> None:
        when = random.choice(("now", "now", "after_turn"))
        # A hook of a turn must not wait for the end of that turn.
        await self.sessions.stop(
            session, when="now" if CURRENT_SESSION.get() == session.id else when
        )

    async def _delete(self, session: Session) -> None:
        await self.sessions.attempt(self.sup.delete(session.id))

    async def _resume(self, session: Session) -> None:
        await self.sessions.attempt(session.resume())

    async def _send_stopped(self, session: Session) -> None:
        await self.sessions.send(
            session, self.text(), when_busy=random.choice(("queue", "interrupt"))
        )

    async def _say(self, session: Session) -> None:
        await self.sessions.send(session, self.text(), when_busy=random.choice(("queue", "steer")))

    async def _interrupt(self, session: Session) -> None:
        await self.sessions.interrupt(session)

    async def _interrupt_tree(self, session: Session) -> None:
        await self.sessions.interrupt(session, "tree")

    async def _raise(self, session: Session) -> None:
        """Raise every limit of a session that may have exhausted some."""
        node = self.node(session)
        if node is None or node.row.limits is None:
            return
        limits = node.row.limits
        more = {
            name: value + 2
            for name in ("max_children", "max_descendants", "turns", "tokens", "cost")
            if (value := getattr(limits, name)) is not None
        }
        await self.sessions.attempt(session.set(limits=attrs.evolve(limits, **more)))

    async def _raise_one(self, session: Session) -> None:
        """Raise several limits concurrently; check that all are applied."""
        node = self.node(session)
        had = None if node is None else node.row.limits
        if node is None or had is None or node.id in self.raising:
            return
        changes = [
            {name: value + 1}
            for name in ("max_children", "max_spawns", "turns", "tokens", "cost", "wall_seconds")
            if (value := getattr(had, name)) is not None
        ]
        self.raising.add(node.id)  # otherwise a concurrent change could lower a limit
        answers: list[object] = []

        async def change_limits(limits: dict[str, int]) -> None:
            answers.append(await self.sessions.attempt(session.set(limits=limits)))

        try:
            async with trio.open_nursery() as nursery:
                for limits in changes:
                    nursery.start_soon(change_limits, limits)
        finally:
            self.raising.discard(node.id)
        has = node.row.limits
        for limits in changes if not any(answers) and not node.is_deleted else ():
            for name, value in limits.items():
                got = getattr(has, name)
                self.oracle.check(
                    got >= value, f"{node.id}: {name} is {got} although {value} was set"
                )

    async def _label(self, session: Session) -> None:
        title = self.sessions.text()
        answer = await self.sessions.attempt(session.set(title=title, tags=[title]))
        node = self.node(session)
        if not isinstance(answer, SupervisorError) and node is not None and not node.is_deleted:
            titles = [one.body.get("title") for one in self.oracle.history(node.id).records]
            self.oracle.check(title in titles, f"{node.id} has no record of the title {title!r}")

    async def _fork(self, session: Session) -> None:
        """Fork; check that the fork is a root with no more permissions and the same messages."""
        node = self.node(session)
        forked = await self.sessions.attempt(session.fork())
        if node is None or isinstance(forked, SupervisorError):
            return
        there = self.oracle.nodes[forked.id]
        self.oracle.check(there.parent is None, f"{there.id} is a fork and has a parent")
        wider = [*widened(node.row.permissions, there.row.permissions)]
        self.oracle.check(
            not wider, f"{there.id} is a fork of {node.id} with more permissions: {wider}"
        )
        if not node.is_deleted and not there.is_deleted:
            kinds = [record.kind for record in self.oracle.history(forked.id).records]
            claimed = kinds.index("session_changed")  # later records belong to the fork alone
            said = [one.body["text"] for one in self._said(forked.id) if one.seq <= claimed]
            known = {one.body["text"] for one in self._said(session.id)}
            strange = [text for text in said if text not in known]
            self.oracle.check(
                not strange, f"{there.id} has messages that its origin lacks: {strange}"
            )

    def _said(self, session_id: str) -> list[Record]:
        records = self.oracle.history(session_id).records
        return [record for record in records if record.kind == "user_text"]

    async def _clear(self, session: Session) -> None:
        await self.sessions.attempt(session.clear())

    async def _append(self, session: Session) -> None:
        await self.sessions.attempt(session.append("user", self.sessions.text("remember")))

    async def _check_info(self, session: Session) -> None:
        await self.sessions.check_info(session)

    async def _archive(self, session: Session) -> None:
        await self.sessions.attempt(session.archive())

    async def act_repeatedly(self, times: int, *actions: str) -> None:
        """Perform `times` random actions; each may be cancelled at any moment."""
        for _ in range(times):
            await with_random_timeout(self.act_once, *actions)
            await random_pause()

    async def wait_until_settled(self) -> None:
        """Wait until nothing changes any more, then check all counts."""
        before = -1
        for _ in range(30):
            await trio.sleep(LONG_SECONDS)
            await settle()
            now = self._written()
            # The clock may jump over several sleeps of an agent at once, so no turn may run either.
            if now == before and not self.oracle.executing:
                break
            before = now
        else:
            self.oracle.check(holds=False, message="it never settles")
        self.oracle.check_settled()
        await self._compare_what_is_shown()

    async def _compare_what_is_shown(self) -> None:
        for _ in range(5):
            await settle()
            before = self._written()
            items = (await self.sup.list()).items
            if self._written() == before:  # otherwise a session changed meanwhile
                self._compare(items)
                break

    def _written(self) -> int:
        return sum(len(history.records) for history in self.oracle.histories.values())

    def _compare(self, items: Sequence[Info]) -> None:
        for listed in items:
            node = self.oracle.nodes[listed.id]
            children = {one.id for one in node.children.values() if one.is_up}
            self.oracle.check(
                set(listed.children) == children,
                f"{listed.id} is listed with children {listed.children}, expected {children}",
            )


def tree_settings(**changes: Any) -> Settings:  # noqa: ANN401
    """Return settings with short times, so that much happens in a short run."""
    given: dict[str, Any] = {
        "ladder": Ladder(ask_seconds=2.0),
        "permission_timeout_seconds": 2.0,
        "suspend_after_seconds": random.choice((0.25, 900.0)),
        **changes,
    }
    return Settings(**given)


@asynccontextmanager
async def open_tree_harness(
    actions: tuple[str, ...] = BUSY,
    *,
    settings: Settings | None = None,
    outside: trio.Nursery | None = None,
) -> AsyncIterator[TreeHarness]:
    """Open a supervisor whose trees are checked."""
    oracle = TreeOracle()
    scripted = ScriptedTreeAgents(oracle, actions)
    async with open_harness(
        settings=settings or tree_settings(), scripted=scripted, outside=outside
    ) as one:
        oracle.inspect(one.sup._parts)
        yield TreeHarness(one, oracle, scripted, one.sup)
