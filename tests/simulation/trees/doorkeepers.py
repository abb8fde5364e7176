"""Hooks at every door of a tree: they say yes, no, less, more than they may, or nothing, for ever.

Rule 1: what hooks are asked about happens after they have let it pass, or not at all.
Rule 2: what a hook answers is noted by the hook; what came of a question by whoever asked it. One
        is held against the other, and both against the commits.
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
from supervisor.sessions.hooks.run import Run
from tests.simulation.sessions.referee import Book
from tests.simulation.stage import wander

from .pages import Page
from .referee import widened
from .wishes import some_permissions

if TYPE_CHECKING:
    from .stage import Trees

DOORS: Final = (
    "session_create",
    "session_resume",
    "input_submitted",
    "turn_start",
    "prompt_assembled",
    "tool_before",
    "permission",
    "spawn_before",
)
# What names the thing that is asked about, among the fields of the event.
NAMED_BY: Final = {
    "input_submitted": "input_id",
    "tool_before": "call_id",
    "permission": "request_id",
    "spawn_before": "text",  # nobody uses one twice, but for two who want the same child
}
MOODS: Final = (*("nod",) * 8, "wander", "deny", "stop", "raise", "late", "deaf", "less", "more")
DEEDS: Final = ("spawn", "say", "stop", "interrupt", "interrupt_tree")


@attrs.define(eq=False)
class Question:
    """One question, and how those who were asked have answered, in order."""

    point: str
    subject: str
    given: Mapping[str, Any]
    answers: list[tuple[Hook, HookEvent, object]] = attrs.Factory(list)

    @property
    def denied_by(self) -> str | None:
        """Who said no, if anybody did whose no counts."""
        for hook, event, answer in self.answers:
            if isinstance(answer, Deny | Stop):
                return hook.name
            fails = isinstance(answer, HookFailed) or _is_wider(event, answer)
            if hook.required and fails:
                return f"the required {hook.name}"
        return None

    def narrowed(self) -> Iterator[Permissions]:
        """Everything that what comes of it must be within."""
        yield self.given["permissions"]
        for _, event, answer in self.answers:
            if isinstance(answer, Change) and not _is_wider(event, answer):
                yield _filled(event.data["permissions"], answer.fields["permissions"])


# Which question the code that runs now asks.
ASKED: Final[ContextVar[Question | None]] = ContextVar("ASKED", default=None)


@attrs.define(eq=False)
class Doorkeepers:
    """All hooks of one run, and what has come of what they were asked."""

    trees: Trees
    over: trio.Event = attrs.Factory(trio.Event)
    # What was let pass, by door and subject: what came of each question about it.
    passed: dict[tuple[str, str], list[Mapping[str, Any]]] = attrs.Factory(dict)
    # Who was told to stop, and how many records it had then.
    told_to_stop: list[tuple[str, int]] = attrs.Factory(list)

    def stand(self) -> None:
        """One at every door for good, and some more who may be there only once."""
        for door in (*DOORS, *random.choices(DOORS, k=3)):
            self.trees.sup.hooks.add(
                door,  # type: ignore[arg-type] # one of them
                self._answer,
                required=random.random() < 0.5,
                deadline_seconds=random.choice((0.5, 2.0)),
            )
        for door in random.choices(DOORS, k=2):
            self.trees.sup.hooks.add(door, self._answer, once=True)  # type: ignore[arg-type]

    # What they do -----------------------------------------------------------------------------

    async def _answer(self, event: HookEvent) -> object:
        match random.choice(MOODS):
            case "wander":
                await wander()
            case "deny":
                return Deny("on purpose")
            case "stop":
                return Stop("on purpose")
            case "raise":
                raise RuntimeError("on purpose")
            case "late":
                await trio.sleep(random.choice((0.25, 1.0, 4.0)))
                return random.choice((None, Deny("too late, perhaps")))
            case "deaf":
                with trio.CancelScope(shield=True):
                    await self.over.wait()
            case "less":
                return self._less(event)
            case "more":
                return self._more(event)
            case _ if random.random() < 0.05:
                await self.trees.meddle(*DEEDS)
        return None

    def _less(self, event: HookEvent) -> Change | None:
        match event.point:
            case "spawn_before":
                wanted = some_permissions()
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

    # What came of a question ------------------------------------------------------------------

    def asked(self, question: Question, session_id: str | None, denied: Denied | None) -> None:
        """It was answered; whoever asked goes on, or is told no."""
        referee, door = self.trees.referee, f"{question.point} of {question.subject}"
        no = question.denied_by
        if denied is None:
            referee.check(no is None, f"{door}: {no} said no, and it went on")
        elif "more than" not in denied.reason:  # hooks that lead to hooks, without end
            referee.check(no is not None, f"{door}: nobody said no, and it was refused")
        if denied is not None and denied.stops and session_id is not None:
            book = referee.book(session_id)
            if not book.is_stopped:
                self.told_to_stop.append((session_id, len(book.records)))

    def let_pass(self, question: Question, taken: Mapping[str, Any]) -> None:
        """It went on, with this."""
        if question.point == "spawn_before":
            for most in question.narrowed():
                wider = [*widened(most, taken["permissions"])]
                words = f"{question.subject!r}: hooks made it more than it was: {wider}"
                self.trees.referee.check(not wider, words)
        self.passed.setdefault((question.point, question.subject), []).append(taken)

    # What happened ----------------------------------------------------------------------------

    def _must_have_passed(self, door: str, subject: str) -> None:
        there = (door, subject) in self.passed
        self.trees.referee.check(there, f"{subject} came by {door}, and nobody had let it pass")

    def enters(self, turn: Turn) -> None:
        """An agent goes to work."""
        if turn.session_id in self.trees.referee.gone:
            return
        over = turn.id in self.trees.referee.book(turn.session_id).over
        self.trees.referee.check(not over, f"{turn.id} is over, and its agent goes to work")
        self._must_have_passed("turn_start", turn.id)
        self._must_have_passed("prompt_assembled", turn.id)
        given = [taken["text"] for taken in self.passed.get(("prompt_assembled", turn.id), ())]
        self.trees.referee.check(turn.text in given, f"{turn.id} got another text than {given}")

    def begins(self, page: Page, book: Book) -> None:
        """A session is there, and was not before."""
        row = page.row
        if page.parent is None:
            return
        text = next(one.body["text"] for one in book.records if one.kind == "input_accepted")
        self._must_have_passed("spawn_before", text)
        given = [taken["permissions"] for taken in self.passed.get(("spawn_before", text), ())]
        fits = any(not [*widened(most, row.permissions)] for most in given)
        book.check(fits, f"it has {row.permissions}, hooks gave it one of {given}")

    def happens(self, page: Page, book: Book, record: Record) -> None:
        """A record is being committed."""
        body = record.body
        match record.kind:
            case "input_accepted" if body["source"] != "child":
                if body["input_id"] != page.row.lineage.input:
                    self._must_have_passed("input_submitted", body["input_id"])
            case "user_text" if record.turn_id is not None:
                written = book.inputs[book.begun[record.turn_id]].text
                book.check(body["text"] == written, f"{written!r} is kept as {body['text']!r}")
            case "tool_call":
                self._must_have_passed("tool_before", body["call_id"])
            case "permission_answered" if body["decision"].startswith("allow"):
                self._must_have_passed("permission", body["request_id"])
            case "session_resumed" if not body["woken"]:
                self._must_have_passed("session_resume", page.id)

    def judge_at_rest(self) -> None:
        """Whoever was told to stop has."""
        referee = self.trees.referee
        for session_id, since in self.told_to_stop:
            if session_id in referee.gone:
                continue
            since_then = [record.kind for record in referee.book(session_id).records[since:]]
            stopped = "session_stopped" in since_then
            referee.check(stopped, f"{session_id} was told to stop by a hook, and goes on")


@asynccontextmanager
async def doorkeepers(trees: Trees) -> AsyncIterator[Doorkeepers]:
    """Have hooks at every door; on the way out those that hang let go."""
    keepers = Doorkeepers(trees)
    with pytest.MonkeyPatch.context() as patch:
        _listen(patch, keepers)
        keepers.stand()
        trees.referee.doors = keepers
        try:
            yield keepers
        finally:
            keepers.over.set()


def _listen(patch: pytest.MonkeyPatch, keepers: Doorkeepers) -> None:
    """Hear what is asked and answered, and change nothing of it."""
    real_ask, real_answer = Hooks.ask, Run.answer

    async def ask(
        self: Hooks,
        point: Any,  # noqa: ANN401
        *,
        session_id: Any,  # noqa: ANN401
        turn_id: Any = None,  # noqa: ANN401
        **data: Any,  # noqa: ANN401
    ) -> Mapping[str, Any]:
        named = data[NAMED_BY[point]] if point in NAMED_BY else turn_id or session_id or "nobody"
        question = Question(point, named, data)
        token = ASKED.set(question)
        try:
            taken = await real_ask(self, point, session_id=session_id, turn_id=turn_id, **data)
        except Denied as denied:
            keepers.asked(question, session_id, denied)
            raise
        finally:
            ASKED.reset(token)
        keepers.asked(question, session_id, None)
        keepers.let_pass(question, taken)
        return taken

    async def answer(self: Run) -> object:
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
    patch.setattr(Run, "answer", answer)


def _is_wider(event: HookEvent, answer: object) -> bool:
    """Whether it is one of the changes that no hook may make."""
    wanted = answer.fields.get("permissions") if isinstance(answer, Change) else None
    return wanted is not None and not _fits(event.data["permissions"], wanted)


def _fits(most: Permissions, wanted: Permissions) -> bool:
    return not [*widened(most, _filled(most, wanted))]


def _filled(most: Permissions, wanted: Permissions) -> Permissions:
    """What was left out is as it was."""
    names = [one.name for one in attrs.fields(Permissions)]
    given = {name: getattr(wanted, name) for name in names}
    return Permissions(
        **{name: getattr(most, name) if value is None else value for name, value in given.items()}
    )
