"""The dispatcher: who is at which point, asked in order, told in order.

Rule 1: hooks run outside of actors, each in a task of its own; whoever asks may be held up for
        their deadlines together, and no longer.
Rule 2: a required hook that fails denies; any other that fails is skipped, and that is logged.
Rule 3: without a hook at a point, that point costs a look into a dict.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any, Final

import trio

from supervisor.core.errors import SupervisorError, shown
from supervisor.core.ids import SessionId, TurnId
from supervisor.drivers.port import Workshop

from .hook import (
    Callback,
    Change,
    Denied,
    Deny,
    Hook,
    HookEvent,
    HookFailed,
    Stop,
    checked_deadline,
)
from .observers import News, Observers
from .points import POINTS, BlockingPoint, ObservedPoint, Point, PointName, Widened, point_named
from .run import MAX_NESTING, Run, path_of_hooks

logger = logging.getLogger("supervisor")

DEADLINE_SECONDS: Final = 5.0


class Hooks:
    """All hooks of a supervisor; users have it as `sup.hooks`."""

    def __init__(self, workshop: Workshop, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._workshop = workshop
        self._deadline_seconds = checked_deadline(deadline_seconds)
        self._next_number = itertools.count(1).__next__
        # In order of adding. Tuples, so that whoever goes through one keeps what it has begun with.
        self._at: dict[PointName, tuple[Hook, ...]] = dict.fromkeys(POINTS, ())
        self._observers = Observers(workshop)
        # Whether anybody observes anything: looked at for every record.
        self.has_observers = False

    def add(
        self,
        point: PointName,
        callback: Callback,
        *,
        once: bool = False,
        required: bool = False,
        deadline_seconds: float | None = None,
    ) -> Hook:
        """Have `callback` called with a `HookEvent` at that point, after those added before it.

        It may be async or not. At a point that asks it answers with None, `Change`, `Deny` or
        `Stop`; if it fails or takes longer than `deadline_seconds` it is skipped, unless it is
        `required`: then that is a no. With `once` it is called once at most. Raises `ConfigError`.
        """
        row = point_named(point)
        hook = Hook(
            row,
            callback,
            number=self._next_number(),
            once=once,
            required=required,
            deadline_seconds=(
                self._deadline_seconds if deadline_seconds is None else deadline_seconds
            ),
            forget=self._forget,
        )
        self._at[row.name] += (hook,)
        self._look_for_observers()
        return hook

    def _forget(self, hook: Hook) -> None:
        self._at[hook.point] = tuple(one for one in self._at[hook.point] if one is not hook)
        self._look_for_observers()

    def _look_for_observers(self) -> None:
        observed = (point for point in POINTS.values() if point.kind == "observed")
        self.has_observers = any(self._at[point.name] for point in observed)

    # Asking -------------------------------------------------------------------------------

    def has(self, point: BlockingPoint) -> bool:
        """Whether `ask` would ask anybody."""
        return bool(self._at[point])

    async def ask(
        self,
        point: BlockingPoint,
        *,
        session_id: SessionId | None,
        turn_id: TurnId | None = None,
        **data: Any,  # noqa: ANN401 - the fields of the point
    ) -> Mapping[str, Any]:
        """What is to be done instead: the data, with what hooks have changed; or `Denied`.

        Asks those who are there now, and does not even pass a checkpoint if nobody is. Cancelled,
        it leaves at once, and the hook that it waits for is cancelled too.
        """
        hooks = self._at[point]
        if not hooks:
            return data
        row = POINTS[point]
        assert data.keys() == row.fields.keys(), f"{point} has {', '.join(row.fields)}"
        above = path_of_hooks()
        if len(above) >= MAX_NESTING:
            raise Denied(_too_deep(above), hook=hooks[0].name)
        for hook in hooks:
            await trio.lowlevel.checkpoint_if_cancelled()
            if not hook.claim():
                continue
            event = HookEvent(point, session_id, turn_id, data)
            try:
                answer = await Run(hook, event, self._workshop, above=above).answer()
                data = _heeded(hook, row, data, answer)
            except HookFailed as failure:
                if hook.required:
                    reason = f"the required hook {hook.name} failed: {failure}"
                    raise Denied(reason, hook=hook.name) from None
                logger.warning(
                    "hook %s of %s was skipped for session %s: %s",
                    hook.name,
                    point,
                    session_id,
                    failure,
                )
        return data

    # Telling ------------------------------------------------------------------------------

    def observes(self, point: ObservedPoint) -> bool:
        """Whether `notify` would tell anybody."""
        return bool(self._at[point])

    def notify(
        self,
        point: ObservedPoint,
        *,
        session_id: SessionId | None,
        turn_id: TurnId | None = None,
        **data: Any,  # noqa: ANN401 - the fields of the point
    ) -> None:
        """Have those told who observe that point now; never waits, and never fails."""
        hooks = self._at[point]
        if not hooks:
            return
        if data.keys() != POINTS[point].fields.keys():
            logger.error("an event of %s has other fields than its point: %s", point, list(data))
        above = path_of_hooks()
        if len(above) >= MAX_NESTING:
            logger.warning("observers of %s were not told: %s", point, _too_deep(above))
            return
        self._observers.tell(News(point, session_id, turn_id, data, hooks, above))

    @property
    def dropped(self) -> int:
        """How many events no observer was told of, because too many waited."""
        return self._observers.dropped

    async def run(self) -> None:
        """Tell observers what happens, for ever; runs until cancelled."""
        await self._observers.run()

    async def wait_delivered(self) -> None:
        """Wait until observers have been told all that has happened; give it a bound."""
        await self._observers.wait_delivered()


def _too_deep(above: tuple[str, ...]) -> str:
    return f"hooks lead to hooks more than {MAX_NESTING} deep: {' > '.join(above)}"


def _heeded(hook: Hook, point: Point, data: dict[str, Any], answer: object) -> dict[str, Any]:
    """The data as the hook would have it; raises `Denied`, or `HookFailed` if it makes no sense."""
    # By its exact type: an object may lie about its class, or raise when it is asked.
    kind = type(answer)
    if answer is None:
        return data
    if kind is Deny or kind is Stop:
        assert isinstance(answer, Deny | Stop)
        raise Denied(answer.reason, hook=hook.name, stops=kind is Stop)
    if kind is not Change:
        raise HookFailed(f"it answered with a {kind.__name__}")
    assert isinstance(answer, Change)
    taken = {
        name: _taken(point, name, data.get(name), value) for name, value in answer.fields.items()
    }
    return data | taken


def _taken(point: Point, name: str, given: object, changed: object) -> object:
    rule = point.may_change.get(name)
    if rule is None:
        raise HookFailed(f"it would change {shown(name)}, which no hook of {point.name} may")
    try:
        return rule(given, changed)
    except Widened:
        raise HookFailed(f"it would widen {name}") from None
    except SupervisorError as refusal:
        raise HookFailed(f"it would change {name} to what was refused: {refusal.code}") from None
