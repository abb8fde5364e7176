"""A conversation on the terminal: lines of the user, output of the agent, questions, Ctrl-C.

Without a terminal, permission requests are rejected. The first Ctrl-C while a turn runs interrupts
the turn, the second exits. A third exits at once, without waiting for agents: their guardians end
the agent processes. Output is printed as it arrives: the text of the agent to standard output,
everything else to standard error.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias

import trio

from supervisor.cli.async_runner import exit_signals
from supervisor.cli.failures import INTERRUPTED
from supervisor.cli.output import Screen
from supervisor.cli.safe import SafeStream
from supervisor.cli.text_format import Cell, truncate
from supervisor.core.errors import PermissionConflict, PermissionNotFound
from supervisor.core.records import Delta, Item, Record
from supervisor.core.text import one_line

from .inbox import request_input_text
from .log import body_text

if TYPE_CHECKING:
    from supervisor.core.session_values import Decision
    from supervisor.handles.supervisor import Supervisor
    from supervisor.sessions.hooks import HookEvent
    from supervisor.sessions.inbox import PermissionRequest


def open_user_terminal() -> TextIO | None:
    """Return the stream for questions to the user: standard input or the terminal, or None."""
    if sys.stdin.isatty():
        return sys.stdin
    if not sys.stderr.isatty():
        return None  # the question would not be seen
    try:
        # Standard input is a pipe, but there is a terminal.
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    return os.fdopen(descriptor, encoding=sys.stdin.encoding, errors="replace", closefd=True)


async def read_line(stream: TextIO) -> str | None:
    """Return the next line without its end, or None at the end of the input.

    After a cancellation the thread is still blocked in the read, so the stream must not be read
    again.
    """
    line = await trio.to_thread.run_sync(stream.readline, abandon_on_cancel=True)
    return line.rstrip("\n") if line else None


# Asks the user and returns the typed line; None at the end of the input.
AskUser: TypeAlias = Callable[[str], Awaitable[str | None]]

_MAX_PENDING: Final = 1_000

_CHOICES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("allow_once", "y", ("y", "yes")),
    ("reject_once", "n", ("n", "no")),
    ("allow_always", "always", ("a", "always")),
    ("reject_always", "never", ("never",)),
)


class PermissionPrompt:
    """Handles all permission requests of a supervisor, one at a time.

    With `is_remote`, the caller passes each request to `add`.
    """

    def __init__(
        self,
        screen: Screen,
        sup: Supervisor,
        ask: AskUser | None,
        *,
        start_line: Callable[[], None] = lambda: None,
        is_remote: bool = False,
    ) -> None:
        self._screen = screen
        self._sup = sup
        self._ask = ask
        # Called before printing, because the agent may be in the middle of a line.
        self._start_line = start_line
        self._send_request_id, self._request_ids = trio.open_memory_channel[str](_MAX_PENDING)
        self._hook = None if is_remote else sup.hooks.add("record_written", self._on_record)

    def _on_record(self, event: HookEvent) -> None:
        if event.data["kind"] == "permission_asked":
            self.add(event.data["body"]["request_id"])

    def add(self, request_id: str) -> None:
        """Handle this request after those that were added before."""
        # Requests beyond the buffer are answered by their timeout.
        with contextlib.suppress(trio.WouldBlock):
            self._send_request_id.send_nowait(request_id)

    async def run(self) -> None:
        """Answer requests until cancelled."""
        try:
            async for request_id in self._request_ids:
                waiting = {one.id: one for one in await self._sup.permissions()}
                request = waiting.get(request_id)  # type: ignore[call-overload]
                if request is not None:
                    await self._answer(request)
        finally:
            # The records of the shutdown follow, and no observer runs then.
            if self._hook is not None:
                self._hook.remove()

    async def _answer(self, request: PermissionRequest) -> None:
        self._start_line()
        text = await self._read_answer(request) if request.asks == "question" else None
        decision = await self._decide(request) if request.asks == "permission" else None
        if text is None and decision is None:
            # Without a terminal no user can answer, and rejecting is not offered.
            self._screen.warn("no user can answer the request, so the turn is interrupted")
            await self._sup.session(request.session_id).interrupt("turn", reason="no user to ask")
            return
        try:
            if decision is not None:
                await self._sup.answer(request.id, decision)
            elif text is not None:
                await self._sup.answer_question(request.id, text)
        except (PermissionNotFound, PermissionConflict):
            self._screen.note("Too late: the request is already settled.")

    async def _read_answer(self, request: PermissionRequest) -> str | None:
        """Return what the user types; the number of a suggested answer stands for it."""
        for place, choice in enumerate(request.choices, 1):
            self._screen.note(f"  {place} {one_line(choice)}")
        typed: str | None = ""
        while self._ask is not None and typed == "":
            typed = await self._ask(f"{request.question} ")
            typed = None if typed is None else typed.strip()
        by_number = {str(place): choice for place, choice in enumerate(request.choices, 1)}
        return by_number.get(typed, typed) if typed else None

    async def _decide(self, request: PermissionRequest) -> Decision | None:
        question = f"{request.question} ({request.tool})"
        if self._ask is not None and request.input:
            self._screen.note(Cell(f"  {request_input_text(request)}", "dim"))
        while self._ask is not None:
            choices = "/".join(letter for word, letter, _ in _CHOICES if word in request.options)
            typed = await self._ask(f"{question} [{choices}] ")
            if typed is None:
                break
            decision = parse_decision(typed, request.options)
            if decision is not None:
                return decision
        rejections = [one for one in request.options if one.startswith("reject")]
        if rejections:
            self._screen.note(
                Cell("rejected: ", "yellow"),
                f"{question}; --yes allows everything, --mode sets what is allowed",
            )
        return rejections[0] if rejections else None


def parse_decision(typed: str, options: tuple[Decision, ...]) -> Decision | None:
    """Return the decision for the typed word; None if the word is not one of the options."""
    word = typed.strip().lower()
    for option in options:
        if any(option == name and word in words for name, _, words in _CHOICES):
            return option
    return None


async def run_interruptible(
    screen: Screen,
    work: Callable[[], Awaitable[int]],
    *,
    interrupt: Callable[[], Awaitable[bool]],
) -> int:
    """Run the work and return its exit code, or `INTERRUPTED`.

    The first Ctrl-C calls `interrupt`, which returns True if there was a turn to interrupt; if not,
    or on any other signal, the work is cancelled.
    """
    leave = trio.CancelScope()
    code = INTERRUPTED
    async with trio.open_nursery() as nursery:
        if exit_signals():
            await nursery.start(_handle_signals, screen, leave, interrupt)
        with leave:
            code = await work()
        nursery.cancel_scope.cancel(reason="the work is over")
    return INTERRUPTED if leave.cancelled_caught else code


async def _handle_signals(
    screen: Screen,
    leave: trio.CancelScope,
    interrupt: Callable[[], Awaitable[bool]],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    # The interrupt in progress, if any.
    under_way: list[int] = []

    async def ask() -> None:
        under_way.append(signal.SIGINT)
        try:
            if not await interrupt():
                leave.cancel(reason="there is nothing to interrupt")
        finally:
            under_way.clear()

    with trio.open_signal_receiver(*exit_signals()) as signals:
        task_status.started()
        async with trio.open_nursery() as nursery:
            async for number in signals:
                if leave.cancel_called:
                    _exit_now(screen)
                elif number != signal.SIGINT or under_way:
                    if screen.is_ansi_stderr:
                        screen.note()  # see OutputPrinter.start_below_ctrl_c
                    screen.note("Exiting; press Ctrl-C again to exit at once.")
                    leave.cancel(reason="the user asked to exit")
                else:
                    nursery.start_soon(ask)


def _exit_now(screen: Screen) -> None:
    screen.err.flush()
    os._exit(INTERRUPTED)  # agents that still run have been asked to end twice


# Records that are printed beside the text, and their labels.
_ASIDE_LABELS: Final = {
    "tool_call": "tool",
    "tool_ended": "tool",
    "interrupted": "interrupted",
    "steered": "steered",
    "agent_restarting": "the agent is started again:",
    "child_started": "child",
    "child_ended": "child",
    "spawn_refused": "spawn refused:",
    "quiet": "quiet:",
    "stalled": "stalled:",
    "error": "error:",
    "warning": "warning:",
}
_MAX_WIDTH: Final = 100


class OutputPrinter:
    """Prints the feed of one session."""

    def __init__(self, screen: Screen, *, with_asides: bool) -> None:
        self._screen = screen
        self._with_asides = with_asides
        self._stream = SafeStream()
        # Number of characters printed of each part, until its closing record arrives.
        self._printed: dict[str, int] = {}
        # True if something was printed since the last text.
        self._needs_new_line = False
        self._is_at_line_start = True

    def print_item(self, item: Item) -> None:
        """Print a record or delta of the feed, unless it is of no interest to people."""
        if isinstance(item, Record):
            self._print_record(item)
        elif isinstance(item, Delta) and item.kind == "agent_text":
            self._print_delta(item)

    def end_line(self) -> None:
        """Start the next output on a new line."""
        self._write(self._stream.finish())
        if not self._is_at_line_start:
            self._write("\n")

    def start_below_ctrl_c(self) -> None:
        """Start the next output below the `^C` that the terminal prints."""
        self._write(self._stream.finish())
        if self._screen.is_terminal and self._screen.is_ansi_stderr:
            self._screen.note()
            self._is_at_line_start = True
        self.end_line()

    def _print_delta(self, delta: Delta) -> None:
        known = self._printed.get(delta.part, 0)
        self._print_text(delta.text[max(0, known - delta.offset) :])
        self._printed[delta.part] = max(known, delta.offset + len(delta.text))

    def _print_record(self, record: Record) -> None:
        if record.kind == "agent_text":
            # Print what its deltas have not contained, because deltas may be missed.
            known = self._printed.pop(str(record.body.get("part")), 0)
            self._print_text(record.body["text"][known:])
            return
        self._needs_new_line = record.kind not in ("input_accepted", "input_settled", "usage")
        if self._with_asides and record.kind in _ASIDE_LABELS:
            self._print_aside(record)

    def _print_aside(self, record: Record) -> None:
        self.end_line()
        said = one_line(f"{_ASIDE_LABELS[record.kind]} {body_text(record)}")
        width = min(self._screen.width or _MAX_WIDTH, _MAX_WIDTH)
        self._screen.note(Cell(truncate(f"  {said}", width), "dim"))

    def _print_text(self, text: str) -> None:
        if not text:
            return
        if self._needs_new_line:
            self.end_line()
            self._needs_new_line = False
        self._write(self._stream.feed(text))

    def _write(self, text: str) -> None:
        if text:
            self._is_at_line_start = text.endswith("\n")
            self._screen.write(text)
