"""Dispatcher of hooks: calls the hooks of a point in the order in which they were added.

Rule 1: hooks run outside of actors, each in its own task. The caller of `ask` waits at most for
        the sum of their deadlines.
Rule 2: a required hook that fails denies; any other hook that fails is skipped and logged.
Rule 3: a point without hooks costs one dict lookup.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any, Final

import trio

from supervisor.core.errors import SupervisorError, short_repr
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.log_content import Content
from supervisor.drivers.runtime import DriverRuntime

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
from .hook_run import MAX_NESTING, HookRun, hook_path
from .observers import HookNotification, Observers
from .points import POINTS, BlockingPoint, ObservedPoint, Point, PointName, Widened, point_named

logger = logging.getLogger("supervisor")

DEADLINE_SECONDS: Final = 5.0


class Hooks:
    """All hooks of a supervisor; users reach it as `sup.hooks`."""

    def __init__(
        self, runtime: DriverRuntime, *, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        self._runtime = runtime
        self._deadline_seconds = checked_deadline(deadline_seconds)
        self._next_number = itertools.count(1).__next__
        # In the order of adding. Tuples, so that an iteration is not affected by add and remove.
        self._by_point: dict[PointName, tuple[Hook, ...]] = dict.fromkeys(POINTS, ())
        self._observers = Observers(runtime)
        # True if any observed point has a hook; kept as a field because it is read for each record.
        self.has_observers = False
        # True if an input has to wait for hooks before it is accepted; read for each input.
        self.has_input_hooks = False
        self.has_turn_hooks = False

    def add(
        self,
        point: PointName,
        callback: Callback,
        *,
        once: bool = False,
        required: bool = False,
        deadline_seconds: float | None = None,
    ) -> Hook:
        """Add a hook: call `callback` with a `HookEvent` at that point, after earlier hooks.

        The callback may be async. At a blocking point it returns None, `Change`, `Deny` or `Stop`.
        If it fails or exceeds `deadline_seconds` it is skipped; a `required` hook denies instead.
        With `once` it is called at most once. Raise ConfigError for an unknown point or an invalid
        argument.
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
        self._by_point[row.name] += (hook,)
        self._update_fields()
        return hook

    def _forget(self, hook: Hook) -> None:
        self._by_point[hook.point] = tuple(
            one for one in self._by_point[hook.point] if one is not hook
        )
        self._update_fields()

    def _update_fields(self) -> None:
        observed = (point for point in POINTS.values() if point.kind == "observed")
        self.has_observers = any(self._by_point[point.name] for point in observed)
        self.has_input_hooks = bool(
            self._by_point["input_submitted"] or self._by_point["session_resume"]
        )
        self.has_turn_hooks = bool(
            self._by_point["turn_start"] or self._by_point["prompt_assembled"]
        )

    # Blocking points ----------------------------------------------------------------------

    def has(self, point: BlockingPoint) -> bool:
        """Return True if the blocking point has a hook."""
        return bool(self._by_point[point])

    async def ask(
        self,
        point: BlockingPoint,
        *,
        session_id: SessionId | None,
        turn_id: TurnId | None = None,
        **data: Any,  # noqa: ANN401 - the fields of the point
    ) -> Mapping[str, Any]:
        """Call the hooks of the point; return the data with their changes, or raise Denied.

        Hooks added during the call are not called. Without hooks it returns at once, without a trio
        checkpoint. On cancellation it returns at once and cancels the running hook.
        """
        hooks = self._by_point[point]
        if not hooks:
            return data
        row = POINTS[point]
        assert data.keys() == row.fields.keys(), f"{point} has {', '.join(row.fields)}"
        above = hook_path()
        if len(above) >= MAX_NESTING:
            raise Denied(_too_deep(above), hook=hooks[0].name)
        for hook in hooks:
            await trio.lowlevel.checkpoint_if_cancelled()
            if not hook.claim():
                continue
            event = HookEvent(point, session_id, turn_id, data)
            try:
                answer = await HookRun(hook, event, self._runtime, above=above).answer()
                data = _apply_answer(hook, row, data, answer)
            except HookFailed as failure:
                if hook.required:
                    reason = f"the required hook {hook.name} failed: {failure}"
                    raise Denied(reason, hook=hook.name) from None
                logger.warning(
                    "hook %s of %s skipped for session %s: %s",
                    hook.name,
                    point,
                    session_id,
                    Content(failure, shown=failure.kind),
                )
        return data

    # Observed points ----------------------------------------------------------------------

    def observes(self, point: ObservedPoint) -> bool:
        """Return True if the observed point has a hook."""
        return bool(self._by_point[point])

    def notify(
        self,
        point: ObservedPoint,
        *,
        session_id: SessionId | None,
        turn_id: TurnId | None = None,
        **data: Any,  # noqa: ANN401 - the fields of the point
    ) -> None:
        """Queue a notification for the current hooks of the point; never wait, never fail."""
        hooks = self._by_point[point]
        if not hooks:
            return
        if data.keys() != POINTS[point].fields.keys():
            logger.error("event of %s does not have the fields of its point: %s", point, list(data))
        above = hook_path()
        if len(above) >= MAX_NESTING:
            logger.warning("observers of %s not notified: %s", point, _too_deep(above))
            return
        self._observers.enqueue(HookNotification(point, session_id, turn_id, data, hooks, above))

    @property
    def dropped(self) -> int:
        """Number of notifications dropped because the queue was full."""
        return self._observers.dropped

    async def run(self) -> None:
        """Deliver notifications to observers until cancelled."""
        await self._observers.run()

    async def wait_delivered(self) -> None:
        """Wait until all queued notifications are delivered; the caller sets a timeout."""
        await self._observers.wait_delivered()


def _too_deep(above: tuple[str, ...]) -> str:
    return f"hooks are nested more than {MAX_NESTING} deep: {' > '.join(above)}"


def _apply_answer(hook: Hook, point: Point, data: dict[str, Any], answer: object) -> dict[str, Any]:
    """Return the data with the hook's changes.

    Raise Denied if the hook denies, and HookFailed if its answer is invalid.
    """
    # The exact type is compared: `isinstance` may run code of the object, which may lie or raise.
    kind = type(answer)
    if answer is None:
        return data
    if kind is Deny or kind is Stop:
        assert isinstance(answer, Deny | Stop)
        raise Denied(answer.reason, hook=hook.name, stops=kind is Stop)
    if kind is not Change:
        raise HookFailed(f"answered with an object of type {kind.__name__}")
    assert isinstance(answer, Change)
    taken = {
        name: _checked_change(point, name, data.get(name), value)
        for name, value in answer.fields.items()
    }
    return data | taken


def _checked_change(point: Point, name: str, given: object, changed: object) -> object:
    rule = point.may_change.get(name)
    if rule is None:
        raise HookFailed(f"a hook of {point.name} cannot change {short_repr(name)}")
    try:
        return rule(given, changed)
    except Widened:
        raise HookFailed(f"tried to widen {name}") from None
    except SupervisorError as refusal:
        raise HookFailed(f"returned an invalid {name}: {refusal.code}") from None
