"""Scripted agents that spawn children and control them."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeAlias

import trio

from supervisor import PermissionDenied, SpawnRefused, SupervisorError, Turn, TurnOver
from tests.simulation.scripted_agents import ScriptedAgents

from .spawn_options import BUSY, TOOLS, random_actions, random_spawn_options
from .tree_oracle import MAX_COST, MAX_TOKENS, TreeOracle

Action: TypeAlias = Callable[[Turn], Awaitable[None]]

# Actions with output at once; tools and permission requests are seen by their records.
PROMPT = ("say", "think", "flood", "use", "spend")
# Spawns by agents in one run are bounded, so that the run ends.
MAX_SPAWNS = 10
# Sums of fractions are not exact: this near to its limit, a budget is exhausted.
ROUNDING = {"wall_seconds": 0.001, "cost": 1e-9}


class ScriptedTreeAgents(ScriptedAgents):
    """The agents of one run; `actions` are those of their children."""

    oracle: TreeOracle

    def __init__(self, oracle: TreeOracle, actions: tuple[str, ...] = BUSY) -> None:
        super().__init__(oracle)
        self.actions = actions
        self.left = MAX_SPAWNS
        self._numbers = count()
        self._children: dict[str, list[Any]] = {}
        self._actions |= {
            "spawn": self._spawn,
            "spawn_two": self._spawn_two,
            "await": self._await_child,
            "control_child": self._control_child,
            "get_descendant": self._get_descendant,
            "news": self._news,
            "spend": self._spend,
            "sleep": self._sleep,
            "allowed": self._allowed,
            "say_slowly": self._say_slowly,
        }
        for action in PROMPT:
            self._actions[action] = self._noted(self._actions[action])

    def text(self, *actions: str) -> str:
        """Return a unique text for a child."""
        return f"c{next(self._numbers)} {' '.join(actions)}".strip()

    def _noted(self, do: Action) -> Action:
        async def noted(turn: Turn) -> None:
            self.oracle.record_progress(turn.session_id)
            await do(turn)

        return noted

    async def run_turn(self, turn: Turn) -> str | None:
        if self.oracle.hook_faults is not None:
            self.oracle.hook_faults.check_turn_start(turn)
        if " ended: " in turn.text:  # notifications of children began this turn
            self.oracle.enter_turn(turn.session_id, turn.id)
            try:
                await self._news(turn)
            finally:
                self.oracle.leave_turn(turn.session_id, turn.id)
            return None
        return await super().run_turn(turn)

    async def _spawn(self, turn: Turn) -> None:
        if self.left <= 0:
            return
        self.left -= 1
        text = self.text(*random_actions(self.actions))
        try:
            with trio.move_on_after(random.choice((0.0, 0.5, 60.0, 60.0))):
                child = await turn.spawn("simulated", text, **random_spawn_options())
                self._children.setdefault(turn.session_id, []).append(child)
        except SupervisorError as refusal:
            check_refusal(self.oracle, refusal)

    async def _spawn_two(self, turn: Turn) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(self._spawn, turn)

    def _one_of_them(self, turn: Turn) -> Any:  # noqa: ANN401 - a handle or None
        children = self._children.get(turn.session_id)
        return random.choice(children) if children else None

    async def _await_child(self, turn: Turn) -> None:
        child = self._one_of_them(turn)
        await trio.lowlevel.checkpoint()
        if child is not None:
            try:
                child._session  # noqa: B018 - raises if the handle is of an earlier turn
            except TurnOver:
                return
            with self.oracle.record_wait(turn.session_id, child.id), suppress(SupervisorError):
                with trio.move_on_after(random.choice((0.5, 4.0, 20.0))):
                    await child.wait()

    async def _control_child(self, turn: Turn) -> None:
        child = self._one_of_them(turn)
        await trio.lowlevel.checkpoint()
        if child is None:
            return
        try:
            with trio.move_on_after(random.choice((0.0, 2.0, 20.0))):
                match random.randrange(5):
                    case 0:
                        await child.stop()
                    case 1:
                        await child.steer(self.text("say"))
                    case 2:
                        await child.send(self.text("say", "pause"))
                    case 3:
                        await child.interrupt()
                    case _:
                        await child.resume()
        except SupervisorError:
            pass

    async def _get_descendant(self, turn: Turn) -> None:
        """Check that an agent reaches its descendants and no other session."""
        await trio.lowlevel.checkpoint()
        known = [node for node in self.oracle.nodes.values() if not node.is_deleted]
        node = random.choice(known)
        parent = node.parent
        below = parent is not None and any(one.id == turn.session_id for one in parent.path())
        try:
            await turn.descendant(node.id)
        except PermissionDenied:
            self.oracle.check(
                not below or node.is_deleted, f"{node.id} is a descendant and was refused"
            )
        except SupervisorError:
            pass
        else:
            self.oracle.check(below, f"{node.id} is not below {turn.session_id} and was returned")

    async def _news(self, turn: Turn) -> None:
        for news in turn.news():
            self.oracle.check_news_read(turn.session_id, news.kind, news.child)
        await trio.lowlevel.checkpoint()

    async def _spend(self, turn: Turn) -> None:
        turn.usage(
            output_tokens=random.randrange(1, MAX_TOKENS + 1),
            cost=random.choice((0.0, MAX_COST)),
        )
        await trio.lowlevel.checkpoint()

    async def _sleep(self, turn: Turn) -> None:
        await trio.sleep(random.choice((0.5, 2.0, 5.0)))
        self.oracle.record_progress(turn.session_id)
        await turn.say("awake")

    async def _allowed(self, turn: Turn) -> None:
        """Check that permissions are enforced at use."""
        await trio.lowlevel.checkpoint()
        node = self.oracle.nodes.get(turn.session_id)
        tool = random.choice((*TOOLS, "rockets"))
        try:
            turn.tool(tool)
        except PermissionDenied:
            got = False
        else:
            got = True
        if node is not None and not node.is_deleted:
            may = all(one.row.permissions.allows("tools", tool) for one in node.path())
            self.oracle.check(got <= may, f"{turn.session_id} used {tool} without permission")

    async def _say_slowly(self, turn: Turn) -> None:
        """Say something after a short time."""
        await trio.sleep(random.choice((0.5, 1.5)))
        self.oracle.record_progress(turn.session_id)
        await turn.say(".")

    async def _use(self, turn: Turn) -> None:
        await self._spend(turn)

    async def _tool(self, turn: Turn) -> None:
        if turn._context.permissions.allows("tools", "bash"):
            await super()._tool(turn)


def check_refusal(oracle: TreeOracle, refusal: SupervisorError) -> None:
    """Check that a refusal names a limit that is exhausted."""
    oracle.check(bool(refusal.code and refusal.hint), f"{refusal!r} has no code or hint")
    if isinstance(refusal, SpawnRefused) and refusal.used is not None:
        allowed = refusal.allowed
        rounding = ROUNDING.get(refusal.limit or "", 0.0)
        right = allowed is not None and refusal.used >= allowed - rounding
        oracle.check(right, f"{refusal!r}: {refusal.used} of {allowed} is not exhausted")
