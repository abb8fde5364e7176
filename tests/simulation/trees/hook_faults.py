"""Hooks at every point: they allow, deny, narrow, widen against the rules, fail or hang.

Rule 1: an action with hooks happens after they allow it, or not at all.
Rule 2: answers are recorded at the hooks, results at their callers. Both are compared with each
        other and with the commits.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
import trio

from supervisor import Permissions, Record, Turn
from supervisor.sessions.hooks import Change, Denied, Deny, Hook, HookEvent, Hooks, Stop
from supervisor.sessions.hooks.hook import HookFailed
from supervisor.sessions.hooks.hook_run import HookRun
from tests.simulation.oracle import SessionHistory
from tests.simulation.timing import random_pause

from .spawn_options import random_permissions
from .tree_counts import ExpectedNode, widened

if TYPE_CHECKING:
    from .tree_harness import TreeHarness

HOOK_POINTS: Final = (
    "session_create",
    "session_resume",
    "input_submitted",
    "turn_start",
    "prompt_assembled",
    "tool_before",
    "permission",
    "spawn_before",
)
# The field of the event that names its subject.
NAMED_BY: Final = {
    "input_submitted": "input_id",
    "tool_before": "call_id",
    "permission": "request_id",
    "spawn_before": "text",  # unique, except for two spawns of the same child
}
BEHAVIOURS: Final = (
    *("allow",) * 8,
    "pause",
    "deny",
    "stop",
    "raise",
    "late",
    "hang",
    "narrow",
    "widen",
)
ACTIONS: Final = ("spawn", "say", "stop", "interrupt", "interrupt_tree")


@attrs.define(eq=False)
class Question:
    """One question to hooks, with their answers in order."""

    point: str
    subject: str
    given: Mapping[str, Any]
    answers: list[tuple[Hook, HookEvent, object]] = attrs.Factory(list)

    @property
    def denied_by(self) -> str | None:
        """The hook whose denial counts; None without one."""
        for hook, event, answer in self.answers:
            if isinstance(answer, Deny | Stop):
                return hook.name
            fails = isinstance(answer, HookFailed) or _is_wider(event, answer)
            if hook.required and fails:
                return f"the required {hook.name}"
        return None

    def narrowed(self) -> Iterator[Permissions]:
        """Yield the permissions that bound the result."""
        yield self.given["permissions"]
        for _, event, answer in self.answers:
            if isinstance(answer, Change) and not _is_wider(event, answer):
                yield _filled(event.data["permissions"], answer.fields["permissions"])


# The question of the running task.
ASKED: Final[ContextVar[Question | None]] = ContextVar("ASKED", default=None)


@attrs.define(eq=False)
class HookFaults:
    """The hooks of one run, with the results of their questions."""

    harness: TreeHarness
    over: trio.Event = attrs.Factory(trio.Event)
    # Allowed actions by point and subject, with the result of each question.
    passed: dict[tuple[str, str], list[Mapping[str, Any]]] = attrs.Factory(dict)
    # Sessions that a hook stopped, with their number of records then.
    told_to_stop: list[tuple[str, int]] = attrs.Factory(list)

    def add_hooks(self) -> None:
        """Add a hook at every point, and some hooks that run once."""
        for door in (*HOOK_POINTS, *random.choices(HOOK_POINTS, k=3)):
            self.harness.sup.hooks.add(
                door,  # type: ignore[arg-type] # a hook point
                self._answer,
                required=random.random() < 0.5,
                deadline_seconds=random.choice((0.5, 2.0)),
            )
        for door in random.choices(HOOK_POINTS, k=2):
            self.harness.sup.hooks.add(door, self._answer, once=True)  # type: ignore[arg-type]

    # Behaviour -------------------------------------------------------------------------------

    async def _answer(self, event: HookEvent) -> object:
        match random.choice(BEHAVIOURS):
            case "pause":
                await random_pause()
            case "deny":
                return Deny("on purpose")
            case "stop":
                return Stop("on purpose")
            case "raise":
                raise RuntimeError("on purpose")
            case "late":
                await trio.sleep(random.choice((0.25, 1.0, 4.0)))
                return random.choice((None, Deny("possibly too late")))
            case "hang":
                with trio.CancelScope(shield=True):
                    await self.over.wait()
            case "narrow":
                return self._less(event)
            case "widen":
                return self._more(event)
            case _ if random.random() < 0.05:
                await self.harness.act_once(*ACTIONS)
        return None

    def _less(self, event: HookEvent) -> Change | None:
        match event.point:
            case "spawn_before":
                wanted = random_permissions()
                if _fits(event.data["permissions"], wanted):
                    return Change(permissions=wanted)
            case "prompt_assembled":
                return Change(text=f"{event.data['text']} say")
        return None

    def _more(self, event: HookEvent) -> Change | None:
        if event.point == "spawn_before":
            wanted = Permissions(tools=("bash", "rockets"), mode="approve_all")
            if not _fits(event.data["permissions"], wanted):
                return Change(permissions=wanted)
        return None

    # Results of questions --------------------------------------------------------------------

    def asked(self, question: Question, session_id: str | None, denied: Denied | None) -> None:
        """Check that the result of a question follows from its answers."""
        oracle, door = self.harness.oracle, f"{question.point} of {question.subject}"
        no = question.denied_by
        if denied is None:
            oracle.check(no is None, f"{door}: {no} denied it and it continued")
        elif "more than" not in denied.reason:  # the limit of nested hooks
            oracle.check(no is not None, f"{door}: no hook denied it and it was refused")
        if denied is not None and denied.stops and session_id is not None:
            history = oracle.history(session_id)
            if not history.is_stopped:
                self.told_to_stop.append((session_id, len(history.records)))

    def record_allowed(self, question: Question, accepted: Mapping[str, Any]) -> None:
        """Record an allowed action and check that hooks did not widen it."""
        if question.point == "spawn_before":
            for most in question.narrowed():
                wider = [*widened(most, accepted["permissions"])]
                message = f"{question.subject!r}: hooks widened it: {wider}"
                self.harness.oracle.check(not wider, message)
        self.passed.setdefault((question.point, question.subject), []).append(accepted)

    # Commits --------------------------------------------------------------------------------

    def _check_allowed(self, door: str, subject: str) -> None:
        there = (door, subject) in self.passed
        self.harness.oracle.check(there, f"{subject} passed {door} without permission of the hooks")

    def check_turn_start(self, turn: Turn) -> None:
        """Check that the hooks of a turn allowed it before its agent runs."""
        if turn.session_id in self.harness.oracle.deleted_ids:
            return
        over = turn.id in self.harness.oracle.history(turn.session_id).over
        self.harness.oracle.check(not over, f"{turn.id} has ended and its agent starts")
        self._check_allowed("turn_start", turn.id)
        self._check_allowed("prompt_assembled", turn.id)
        given = [
            accepted["text"] for accepted in self.passed.get(("prompt_assembled", turn.id), ())
        ]
        self.harness.oracle.check(turn.text in given, f"{turn.id} has another text than {given}")

    def check_created(self, node: ExpectedNode, history: SessionHistory) -> None:
        """Check that hooks allowed a new session and its permissions."""
        row = node.row
        if node.parent is None:
            return
        text = next(one.body["text"] for one in history.records if one.kind == "input_accepted")
        self._check_allowed("spawn_before", text)
        given = [
            accepted["permissions"] for accepted in self.passed.get(("spawn_before", text), ())
        ]
        fits = any(not [*widened(most, row.permissions)] for most in given)
        history.check(fits, f"it has {row.permissions}, hooks allowed one of {given}")

    def check_record(self, node: ExpectedNode, history: SessionHistory, record: Record) -> None:
        """Check that hooks allowed the action of a record."""
        body = record.body
        match record.kind:
            case "input_accepted" if body["source"] != "child":
                if body["input_id"] != node.row.lineage.input:
                    self._check_allowed("input_submitted", body["input_id"])
            case "user_text" if record.turn_id is not None:
                written = history.inputs[history.begun[record.turn_id]].text
                history.check(
                    body["text"] == written, f"{written!r} is recorded as {body['text']!r}"
                )
            case "tool_call":
                self._check_allowed("tool_before", body["call_id"])
            case "permission_answered" if body["decision"].startswith("allow"):
                self._check_allowed("permission", body["request_id"])
            case "session_resumed" if not body["woken"]:
                self._check_allowed("session_resume", node.id)

    def check_settled(self) -> None:
        """Check that every session that a hook stopped has stopped."""
        oracle = self.harness.oracle
        for session_id, since in self.told_to_stop:
            if session_id in oracle.deleted_ids:
                continue
            since_then = [record.kind for record in oracle.history(session_id).records[since:]]
            stopped = "session_stopped" in since_then
            oracle.check(stopped, f"{session_id} was stopped by a hook and continues")


@asynccontextmanager
async def open_hook_faults(harness: TreeHarness) -> AsyncIterator[HookFaults]:
    """Add hooks at every point; release hanging hooks on exit."""
    hook_faults = HookFaults(harness)
    with pytest.MonkeyPatch.context() as patch:
        _listen(patch, hook_faults)
        hook_faults.add_hooks()
        harness.oracle.hook_faults = hook_faults
        try:
            yield hook_faults
        finally:
            hook_faults.over.set()


def _listen(patch: pytest.MonkeyPatch, hook_faults: HookFaults) -> None:
    """Observe questions and answers of hooks without changing them."""
    real_ask, real_answer = Hooks.ask, HookRun.answer

    async def ask(
        self: Hooks,
        point: Any,  # noqa: ANN401
        *,
        session_id: Any,  # noqa: ANN401
        turn_id: Any = None,  # noqa: ANN401
        **data: Any,  # noqa: ANN401
    ) -> Mapping[str, Any]:
        named = (
            data[NAMED_BY[point]] if point in NAMED_BY else turn_id or session_id or "no session"
        )
        question = Question(point, named, data)
        token = ASKED.set(question)
        try:
            accepted = await real_ask(self, point, session_id=session_id, turn_id=turn_id, **data)
        except Denied as denied:
            hook_faults.asked(question, session_id, denied)
            raise
        finally:
            ASKED.reset(token)
        hook_faults.asked(question, session_id, None)
        hook_faults.record_allowed(question, accepted)
        return accepted

    async def answer(self: HookRun) -> object:
        question = ASKED.get()
        assert question is not None
        try:
            said = await real_answer(self)
        except HookFailed as failure:
            question.answers.append((self._hook, self._event, failure))
            raise
        question.answers.append((self._hook, self._event, said))
        return said

    patch.setattr(Hooks, "ask", ask)
    patch.setattr(HookRun, "answer", answer)


def _is_wider(event: HookEvent, answer: object) -> bool:
    """Return True if a change widens permissions, which no hook may do."""
    wanted = answer.fields.get("permissions") if isinstance(answer, Change) else None
    return wanted is not None and not _fits(event.data["permissions"], wanted)


def _fits(most: Permissions, wanted: Permissions) -> bool:
    return not [*widened(most, _filled(most, wanted))]


def _filled(most: Permissions, wanted: Permissions) -> Permissions:
    """Return `wanted` with missing fields taken from `most`."""
    names = [one.name for one in attrs.fields(Permissions)]
    given = {name: getattr(wanted, name) for name in names}
    return Permissions(
        **{name: getattr(most, name) if value is None else value for name, value in given.items()}
    )
