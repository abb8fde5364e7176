"""Faults planted where hooks are asked, and where a session is changed; see `mutants`."""

# ruff: noqa: ANN401 - stand-ins take what the real ones take, and some of that is anything

from __future__ import annotations

from typing import Any

import attrs
import pytest

from supervisor import InputRefused, Permissions
from supervisor.core import creation
from supervisor.core.ids import SessionId
from supervisor.core.session import Session
from supervisor.sessions.hooks import POINTS, Denied, Hooks, dispatch
from supervisor.sessions.hooks.gates import Gates
from supervisor.sessions.hooks.run import Run
from supervisor.sessions.register import Register
from supervisor.sessions.shell.agent.preparation import Preparation
from supervisor.sessions.surface import forking
from tests.simulation.finding import Mutant

from .attacks import change_in_mid_turn, hang_at_the_doors

Patch = pytest.MonkeyPatch


# Hooks ------------------------------------------------------------------------------------


def hook_waited_for_for_ever(patch: Patch) -> None:
    real = Run.answer

    async def answer(self: Run) -> object:
        self._hook.deadline_seconds = float("inf")  # the fault: it may take as long as it likes
        return await real(self)

    patch.setattr(Run, "answer", answer)


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
    # The fault: what a hook asks for is what the child gets.
    rules = {**row.may_change, "permissions": lambda given, changed: changed}
    points = {**POINTS, "spawn_before": attrs.evolve(row, may_change=rules)}
    patch.setattr(dispatch, "POINTS", points)


def turn_begins_though_it_was_interrupted(patch: Patch) -> None:
    def cancel(self: Preparation) -> None:
        self._report("interrupted", None)  # the fault: hooks go on thinking, and then it begins

    patch.setattr(Preparation, "cancel", cancel)


def input_accepted_in_spite_of_hooks(patch: Patch) -> None:
    real = Gates.submitting

    async def submitting(self: Gates, session_id: SessionId, event: Any) -> float | None:
        try:
            return await real(self, session_id, event)
        except InputRefused:
            return None  # the fault

    patch.setattr(Gates, "submitting", submitting)


def hooks_not_asked_again(patch: Patch) -> None:
    real = Gates.resuming

    async def resuming(self: Gates, session: Session) -> bool:
        await real(self, session)
        return True  # the fault: it was live a moment ago

    patch.setattr(Gates, "resuming", resuming)


# Changes ----------------------------------------------------------------------------------


def limits_changed_side_by_side(patch: Patch) -> None:
    async def alone(self: Register, name: str, work: Any, *args: Any) -> Any:
        return await self._works.carry_through(work, *args)  # the fault: read, wait, write

    patch.setattr(Register, "alone", alone)


def fork_has_all_rights(patch: Patch) -> None:
    def plan_of(session: Session, limits: Any) -> Any:
        return attrs.evolve(creation.plan_of(session, limits), permissions=Permissions())

    patch.setattr(forking, "plan_of", plan_of)  # the fault: a root may do everything


MUTANTS_OF_DOORS: tuple[Mutant, ...] = (
    Mutant(
        "a hook is waited for for ever",
        "35: whoever waits for a hook waits until its deadline",
        hang_at_the_doors,
        "for ever",
        hook_waited_for_for_ever,
    ),
    Mutant(
        "a required hook that fails is skipped",
        "11: a required hook that fails denies",
        hang_at_the_doors,
        "and it went on",
        required_hook_skipped,
    ),
    Mutant(
        "widened by a hook",
        "11: hooks narrow, and never widen",
        hang_at_the_doors,
        "hooks made it more than it was",
        widened_by_a_hook,
    ),
    Mutant(
        "a turn begins though it was interrupted",
        "6: what hooks say of a turn that is over changes nothing",
        hang_at_the_doors,
        "is over, and its agent goes to work",
        turn_begins_though_it_was_interrupted,
    ),
    Mutant(
        "an input is accepted in spite of hooks",
        "3: a refused input was never queued",
        hang_at_the_doors,
        "came by input_submitted",
        input_accepted_in_spite_of_hooks,
    ),
    Mutant(
        "hooks are not asked again when a session has stopped meanwhile",
        "2: check and act without an await between",
        hang_at_the_doors,
        "came by session_resume",
        hooks_not_asked_again,
    ),
    Mutant(
        "limits are read, then changed",
        "15: two who change different limits both get theirs",
        change_in_mid_turn,
        "was set",
        limits_changed_side_by_side,
    ),
    Mutant(
        "a fork has all rights",
        "11: nobody comes to more rights by being copied",
        change_in_mid_turn,
        "and may more",
        fork_has_all_rights,
    ),
)
