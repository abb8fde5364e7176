"""Lines from standard input, read in a thread, and permission requests put to the user.

Without a terminal, requests are rejected.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias

import trio

from supervisor.cli.columns import Cell
from supervisor.cli.output import Screen
from supervisor.core.errors import PermissionConflict, PermissionNotFound

from .inbox import request_input_text

if TYPE_CHECKING:
    from supervisor.core.state import Decision
    from supervisor.handles.supervisor import Supervisor
    from supervisor.sessions.hooks import HookEvent
    from supervisor.sessions.inbox import PermissionRequest


def open_user_terminal() -> TextIO | None:
    """Return the stream for asking the user: standard input or the terminal; None without one."""
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

    If it is cancelled, its thread stays in the read; the stream must not be read again.
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
    """Handles all permission requests of a supervisor, one at a time."""

    def __init__(
        self,
        screen: Screen,
        sup: Supervisor,
        ask: AskUser | None,
        *,
        start_line: Callable[[], None] = lambda: None,
    ) -> None:
        self._screen = screen
        self._sup = sup
        self._ask = ask
        # Called before printing, because the agent may be in the middle of a line.
        self._start_line = start_line
        self._send_request_id, self._request_ids = trio.open_memory_channel[str](_MAX_PENDING)
        self._hook = sup.hooks.add("record_written", self._on_record)

    def _on_record(self, event: HookEvent) -> None:
        if event.data["kind"] == "permission_asked":
            # Requests beyond the buffer are answered by their timeout.
            try:
                self._send_request_id.send_nowait(event.data["body"]["request_id"])
            except trio.WouldBlock:
                return

    async def run(self) -> None:
        """Answer requests until cancelled."""
        async for request_id in self._request_ids:
            waiting = {one.id: one for one in await self._sup.permissions()}
            request = waiting.get(request_id)  # type: ignore[call-overload]
            if request is not None:
                await self._answer(request)

    async def _answer(self, request: PermissionRequest) -> None:
        self._start_line()
        decision = await self._decide(request)
        if (
            decision is None
        ):  # rejecting is not offered, and without a terminal no user can allow it
            self._screen.warn("no user can answer the request, so the turn is interrupted")
            await self._sup.session(request.session_id).interrupt("turn", reason="no user to ask")
            return
        try:
            await self._sup.answer(request.id, decision)
        except (PermissionNotFound, PermissionConflict):
            self._screen.note("Too late: the request is already settled.")

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
    """Return the decision for the typed word; None if it is not one of those offered."""
    word = typed.strip().lower()
    for option in options:
        if any(option == name and word in words for name, _, words in _CHOICES):
            return option
    return None
