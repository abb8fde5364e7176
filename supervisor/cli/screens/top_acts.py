"""What the user does to a session from `top`: messages, interrupts, stops, answers.

Rule 1: an act keeps the session that was selected when its key was pressed, names it in every
        question and report, and is not affected by a selection that moves meanwhile.
Rule 2: nothing waits for an act: its report is shown when it is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input, Static

from supervisor.cli.text_format import Cell, truncate
from supervisor.core.errors import SupervisorError
from supervisor.core.session_values import Phase
from supervisor.core.text import one_line

from .request_panel import LASTING_DECISIONS
from .styled_text import cells_text
from .top_dialogs import Choice, ChoiceDialog
from .top_order import Entry, display_name
from .top_scopes import ScopeChoice, report_text, scope_choices, stop_question

if TYPE_CHECKING:
    from supervisor.sessions.inbox import PermissionRequest

    from .top_feed import TopFeed
    from .top_model import TopModel
    from .top_panes import InboxPane, TranscriptPane

_MAX_NAME_WIDTH = 24
LineKind = Literal["filter", "send", "steer", "answer"]


class SessionActs(Screen[None]):
    """The part of the screen that acts on sessions."""

    model: TopModel
    feed: TopFeed
    transcript: TranscriptPane
    inbox: InboxPane
    # The line of text with its label, and the last line, which it covers.
    line: Horizontal
    line_label: Static
    line_input: Input
    status: Static
    # What the line of text is for, and the session that it is for.
    line_kind: LineKind = "filter"
    line_target: Entry | None = None
    # The question that the line answers.
    line_question: PermissionRequest | None = None
    # A text that was not sent: the line for the same session begins with it.
    unsent: tuple[LineKind, str, str] | None = None
    # The selection before the filter was typed, to which Escape returns.
    selected_before: str | None = None

    def filter_rows(self, text: str) -> None:
        """Filter the list, and select a session that matches, before the next key arrives."""
        raise NotImplementedError

    def remark(self, text: str, style: str = "yellow") -> None:
        """Show a short message."""
        raise NotImplementedError

    def focus_list(self) -> None:
        """Give the keys back to the list."""
        raise NotImplementedError

    def target(self) -> Entry | None:
        """Return the selected session; say why there is none."""
        entry = self.model.selected_entry
        if entry is None:
            self.remark("select a session first")
        elif entry.is_deleted:
            self.remark(f"{short_name(entry)} is gone; select another session")
        elif self.feed.sup is None or self.feed.connection() != "connected":
            self.remark("the daemon is gone; try again when it is back", "red")
        else:
            return entry
        return None

    def _act(self, doing: str, act: Callable[[], Awaitable[str]]) -> None:
        """Run an act beside everything else, and show its report or its error."""

        async def run() -> None:
            try:
                self.remark(await act(), "green")
            except SupervisorError as error:
                hint = f"; {error.hint}" if error.hint else ""
                self.remark(f"{doing}: {error.args[0]}{hint}", "red")

        self.remark(f"{doing} ...")
        self.run_worker(run(), group="acts")

    def _session(self, entry: Entry) -> Any:  # noqa: ANN401 - a target's session
        assert self.feed.sup is not None
        return self.feed.sup.session(entry.id)

    # Messages ------------------------------------------------------------------------------

    def action_send(self) -> None:
        """Type a message for the selected session, or the answer to the question in the inbox."""
        question = self.inbox.inbox.question
        if self.focused is not self.inbox or question is None:
            self._open_line("send", self.target())
        elif (entry := self.model.entries.get(question.session_id)) is not None:
            self.line_question = question
            self._open_line("answer", entry)

    def action_steer(self) -> None:
        """Type a text for the running turn."""
        entry = self.target()
        if entry is not None and entry.row.turn_id is None:
            self.remark(f"{short_name(entry)} has no running turn to steer; m sends a message")
            return
        self._open_line("steer", entry)

    def action_filter(self) -> None:
        """Type a filter; the list follows while it is typed."""
        self.line_kind, self.line_target = "filter", None
        self.selected_before = self.model.selected
        self._show_line("filter ", self.model.row_filter.text)

    def _open_line(self, kind: LineKind, entry: Entry | None) -> None:
        if entry is None:
            return
        self.line_kind, self.line_target = kind, entry
        name = truncate(short_name(entry), _MAX_NAME_WIDTH)
        if kind == "steer":
            label = f"steer {name}: "
        elif kind == "answer":
            label = f"answer {name}: "
        elif entry.row.phase is Phase.STOPPED:
            label = f"to {name}, starts it again: "
        elif entry.row.turn_id is None:
            label = f"to {name}: "
        else:
            label = f"queue for {name}: "
        is_kept = self.unsent is not None and self.unsent[:2] == (kind, entry.id)
        self._show_line(label, self.unsent[2] if self.unsent is not None and is_kept else "")

    def _show_line(self, label: str, text: str) -> None:
        self.line_label.update(cells_text([Cell(label, "bold cyan")]))
        self.line.display = True
        self.status.display = False
        self.line_input.value = text
        self.set_focus(self.line_input)

    def close_line(self) -> None:
        """Hide the line of text; what was typed is discarded."""
        self.line.display = False
        self.status.display = True
        self.focus_list()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        if self.line_kind == "filter" and self.line.display:
            self.filter_rows(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Send the text, or keep the filter."""
        text, entry, kind = event.value.strip(), self.line_target, self.line_kind
        if kind == "filter":
            self.filter_rows(event.value)
        self.close_line()
        if kind == "answer" and text and self.line_question is not None:
            self._answer_question(self.line_question, text)
        elif kind != "filter" and text and entry is not None:
            self._send_text(kind, entry, text)

    def _send_text(self, kind: LineKind, entry: Entry, text: str) -> None:
        name = short_name(entry)

        async def act() -> str:
            session = self._session(entry)
            try:
                receipt = await (session.steer(text) if kind == "steer" else session.send(text))
            except SupervisorError:
                self.unsent = (kind, entry.id, text)
                raise
            if self.unsent is not None and self.unsent[:2] == (kind, entry.id):
                self.unsent = None
            place = "" if receipt.position is None else f" at place {receipt.position + 1}"
            return f"{name}: {receipt.status}{place}"

        self._act(f"{kind} to {name}", act)

    # Interrupts and the life of a session --------------------------------------------------

    def action_interrupt(self) -> None:
        """Show what each scope would hit; then interrupt the one that the user chooses."""
        entry = self.target()
        if entry is not None:
            self.run_worker(self._choose_scope(entry), group="scopes", exclusive=True)

    async def _choose_scope(self, entry: Entry) -> None:
        calls = await self.transcript.open_calls(entry.id) if entry.row.turn_id else []
        scopes = scope_choices(entry, calls, self.model.entries, now=self.now())
        by_key = {str(place + 1): scope for place, scope in enumerate(scopes)}
        choices = [
            Choice(key, scope.title, scope.hits, scope.is_possible) for key, scope in by_key.items()
        ]

        def chosen(key: str | None) -> None:
            if key is not None:
                self._confirm_interrupt(entry, by_key[key])

        title = f"Interrupt what of {short_name(entry)}?"
        self.app.push_screen(ChoiceDialog(title, choices), chosen)

    def _confirm_interrupt(self, entry: Entry, scope: ScopeChoice) -> None:
        name = short_name(entry)

        async def act() -> str:
            report = await self._session(entry).interrupt(scope.scope, reason="understudy top")
            return report_text(report, scope.title, name)

        doing = f"interrupt the {scope.title} of {name}"
        if scope.confirm is None:
            self._act(doing, act)
        else:
            self._confirm(scope.confirm, doing, act)

    def action_stop(self) -> None:
        """Stop the selected session after a question that names it."""
        entry = self.target()
        if entry is None:
            return
        name = short_name(entry)

        async def act() -> str:
            await self._session(entry).stop()
            return f"{name} has stopped; r starts it again, a lists stopped sessions"

        self._confirm(stop_question(entry, self.model.entries), f"stop {name}", act)

    def action_resume(self) -> None:
        """Start a stopped session again."""
        entry = self.target()
        if entry is None:
            return

        async def act() -> str:
            await self._session(entry).resume()
            return f"{short_name(entry)} runs again"

        self._act(f"resume {short_name(entry)}", act)

    def _confirm(self, question: str, doing: str, act: Callable[[], Awaitable[str]]) -> None:
        choices = [Choice("y", "yes"), Choice("n", "no")]

        def chosen(key: str | None) -> None:
            if key == "y":
                self._act(doing, act)
            else:
                self.remark(f"not done: {doing}", "dim")

        self.app.push_screen(ChoiceDialog(question, choices, is_grave=True), chosen)

    # Reading and answering -----------------------------------------------------------------

    def mark_seen(self) -> None:
        """Record that a person has opened the transcript of the selected session."""
        entry = self.model.selected_entry
        if entry is None or entry.is_deleted or self.feed.sup is None:
            return
        if entry.row.seen_seq >= entry.row.last_seq:
            return

        async def mark() -> None:
            try:
                await self._session(entry).seen(entry.row.last_seq)
            except SupervisorError as error:
                self.remark(f"seen: {error.args[0]}", "red")

        self.run_worker(mark(), group="acts")

    def answer_by_key(self, key: str) -> None:
        """Answer the question that is shown in full, if it offers the decision of the key."""
        inbox, sup = self.inbox.inbox, self.feed.sup
        choice = inbox.choice_for(key)
        if inbox.question is not None and choice is not None:
            self._answer_question(inbox.question, choice)
            return
        request, decision = inbox.shown, inbox.decision_for(key)
        if request is None or sup is None or decision is None:
            self.remark("this question does not offer that answer")
            return
        words = f"{one_line(request.tool)}: {decision.replace('_', ' ')}"

        async def act() -> str:
            await sup.answer(request.id, decision)
            if inbox.shown is request:
                inbox.outcome = f"answered: {decision.replace('_', ' ')}"
                self.inbox.show()
            return words

        if decision in LASTING_DECISIONS:
            question = f"{words}, without asking again?"
            self._confirm(question, f"answer {words}", act)
        else:
            self._act(f"answer {words}", act)

    def _answer_question(self, question: PermissionRequest, text: str) -> None:
        inbox = self.inbox.inbox

        async def act() -> str:
            assert self.feed.sup is not None
            await self.feed.sup.answer_question(question.id, text)
            if inbox.shown is question:
                inbox.outcome = f"answered: {text}"
                self.inbox.show()
            return f"answered: {one_line(text)}"

        self._act("answer the question", act)

    def action_copy_id(self) -> None:
        """Copy the id of the selected session to the clipboard of the terminal."""
        entry = self.model.selected_entry
        if entry is not None:
            self.app.copy_to_clipboard(entry.id)
            self.remark(f"copied: {entry.id}", "cyan")

    def now(self) -> float:
        """Return the time of the wall clock."""
        raise NotImplementedError


def short_name(entry: Entry) -> str:
    """Return the name of the session on one line."""
    return one_line(display_name(entry)) or entry.id
