"""Faults planted into hooks and into changes of sessions; see `mutants`."""
# ruff: noqa: ANN401 - replacements accept the arguments of the originals, some of type Any

from __future__ import annotations

from typing import Any

import attrs
import pytest

from supervisor import InputRefused, Permissions
from supervisor.core import creation
from supervisor.core.ids import SessionId
from supervisor.core.state import SessionState
from supervisor.handles import specs
from supervisor.sessions.hooks import POINTS, Denied, Hooks, dispatch
from supervisor.sessions.hooks.blocking import BlockingHooks
from supervisor.sessions.hooks.hook_run import HookRun
from supervisor.sessions.tasks import DetachedTasks
from supervisor.sessions.turn_hooks import TurnHooks
from tests.simulation.planted_faults import Mutant

from .attacks import change_during_turns, hang_in_hooks

Patch = pytest.MonkeyPatch


# Hooks ------------------------------------------------------------------------------------


def hook_without_deadline(patch: Patch) -> None:
    real = HookRun.answer

    async def answer(self: HookRun) -> object:
        self._hook.deadline_seconds = float("inf")  # the fault: no deadline
        return await real(self)

    patch.setattr(HookRun, "answer", answer)


def required_hook_skipped(patch: Patch) -> None:
    real = Hooks.ask

    async def ask(self: Hooks, point: Any, **data: Any) -> Any:
        try:
            return await real(self, point, **data)
        except Denied as denied:
            if not denied.reason.startswith("the required hook"):
                raise
        return {name: data[name] for name in POINTS[point].fields}  # the fault

    patch.setattr(Hooks, "ask", ask)


def widened_by_a_hook(patch: Patch) -> None:
    row = POINTS["spawn_before"]
    # The fault: the change of a hook is not narrowed.
    rules = {**row.may_change, "permissions": lambda given, changed: changed}
    points = {**POINTS, "spawn_before": attrs.evolve(row, may_change=rules)}
    patch.setattr(dispatch, "POINTS", points)


def turn_begins_though_it_was_interrupted(patch: Patch) -> None:
    def cancel(self: TurnHooks) -> None:
        self._report("interrupted", None)  # the fault: the hooks go on, and then the turn begins

    patch.setattr(TurnHooks, "cancel", cancel)


def input_accepted_in_spite_of_hooks(patch: Patch) -> None:
    real = BlockingHooks.before_input

    async def submitting(self: BlockingHooks, session_id: SessionId, event: Any) -> float | None:
        try:
            return await real(self, session_id, event)
        except InputRefused:
            return None  # the fault

    patch.setattr(BlockingHooks, "before_input", submitting)


def hooks_not_asked_again(patch: Patch) -> None:
    real = BlockingHooks.before_resume

    async def resuming(self: BlockingHooks, session: SessionState) -> bool:
        await real(self, session)
        return True  # the fault: it was live a moment ago

    patch.setattr(BlockingHooks, "before_resume", resuming)


# Changes ----------------------------------------------------------------------------------


def limits_changed_side_by_side(patch: Patch) -> None:
    async def alone(self: DetachedTasks, name: str, work: Any, *args: Any) -> Any:
        return await self.run_detached(work, *args)  # the fault: read, wait, write

    patch.setattr(DetachedTasks, "exclusive", alone)


def fork_has_all_rights(patch: Patch) -> None:
    def plan_of(session: SessionState, limits: Any) -> Any:
        return attrs.evolve(creation.spec_like(session, limits), permissions=Permissions())

    patch.setattr(specs, "spec_like", plan_of)  # the fault: a root may do everything


HOOK_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a hook has no deadline",
        "35: a wait for a hook ends at its deadline",
        hang_in_hooks,
        "for ever",
        hook_without_deadline,
    ),
    Mutant(
        "a required hook that fails is skipped",
        "11: a required hook that fails denies",
        hang_in_hooks,
        "denied it and it continued",
        required_hook_skipped,
    ),
    Mutant(
        "widened by a hook",
        "11: hooks narrow, and never widen",
        hang_in_hooks,
        "hooks widened it",
        widened_by_a_hook,
    ),
    Mutant(
        "a turn begins though it was interrupted",
        "6: hooks of an ended turn change nothing",
        hang_in_hooks,
        "has ended and its agent starts",
        turn_begins_though_it_was_interrupted,
    ),
    Mutant(
        "an input is accepted in spite of hooks",
        "3: a refused input was never queued",
        hang_in_hooks,
        "passed input_submitted without permission",
        input_accepted_in_spite_of_hooks,
    ),
    Mutant(
        "hooks are not asked again when a session has stopped meanwhile",
        "2: check and act without an await between",
        hang_in_hooks,
        "passed session_resume without permission",
        hooks_not_asked_again,
    ),
    Mutant(
        "limits are read, then changed",
        "15: concurrent changes of different limits are all applied",
        change_during_turns,
        "was set",
        limits_changed_side_by_side,
    ),
    Mutant(
        "a fork has all rights",
        "11: a fork has no more permissions than its origin",
        change_during_turns,
        "with more permissions",
        fork_has_all_rights,
    ),
)
