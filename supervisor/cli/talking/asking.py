"""What agents ask on the way: put to whoever sits at the terminal, rejected if nobody does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from supervisor.cli.looking.inbox import input_of
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.core.errors import PermissionConflict, PermissionNotFound

if TYPE_CHECKING:
    from supervisor.core.session import Decision
    from supervisor.sessions.hooks import HookEvent
    from supervisor.sessions.inbox import PermissionRequest
    from supervisor.sessions.surface.supervisor import Supervisor

# Asks a person, and gives what was typed; None if nobody is there any more.
Ask: TypeAlias = Callable[[str], Awaitable[str | None]]

_MOST_WAITING: Final = 1_000
_CHOICES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("allow_once", "y", ("y", "yes")),
    ("reject_once", "n", ("n", "no")),
    ("allow_always", "always", ("a", "always")),
    ("reject_always", "never", ("never",)),
)


class Asker:
    """Sees to all that is asked in a supervisor, one question at a time."""

    def __init__(
        self,
        screen: Screen,
        sup: Supervisor,
        ask: Ask | None,
        *,
        make_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._screen = screen
        self._sup = sup
        self._ask = ask
        # Called before anything is said here, for an agent may be in the middle of a line.
        self._make_room = make_room
        self._tell, self._heard = trio.open_memory_channel[str](_MOST_WAITING)
        self._hook = sup.hooks.add("record_written", self._hear)

    def _hear(self, event: HookEvent) -> None:
        if event.data["kind"] == "permission_asked":
            # Beyond so many, the time-out of a request answers it.
            try:
                self._tell.send_nowait(event.data["body"]["request_id"])
            except trio.WouldBlock:
                return

    async def run(self) -> None:
        """Answer whatever comes, until this is cancelled."""
        async for request_id in self._heard:
            waiting = {one.id: one for one in await self._sup.permissions()}
            request = waiting.get(request_id)  # type: ignore[call-overload]
            if request is not None:
                await self._answer(request)

    async def _answer(self, request: PermissionRequest) -> None:
        self._make_room()
        decision = await self._decide(request)
        if decision is None:  # it may not be refused, and nobody is there who could allow it
            self._screen.warn("nobody can answer that, so the turn is interrupted")
            await self._sup.session(request.session_id).interrupt("turn", reason="nobody to ask")
            return
        try:
            await self._sup.answer(request.id, decision)
        except (PermissionNotFound, PermissionConflict):
            self._screen.note("It is too late for that: the question is over.")

    async def _decide(self, request: PermissionRequest) -> Decision | None:
        question = f"{request.question} ({request.tool})"
        if self._ask is not None and request.input:
            self._screen.note(Cell(f"  {input_of(request)}", "dim"))
        while self._ask is not None:
            choices = "/".join(letter for word, letter, _ in _CHOICES if word in request.options)
            typed = await self._ask(f"{question} [{choices}] ")
            if typed is None:
                break
            decision = decision_of(typed, request.options)
            if decision is not None:
                return decision
        rejections = [one for one in request.options if one.startswith("reject")]
        if rejections:
            self._screen.note(
                Cell("rejected: ", "yellow"),
                f"{question}; --yes allows what is asked, --mode says how much",
            )
        return rejections[0] if rejections else None


def decision_of(typed: str, options: tuple[Decision, ...]) -> Decision | None:
    """The decision that somebody means; None if it is none of those offered."""
    word = typed.strip().lower()
    for option in options:
        if any(option == name and word in words for name, _, words in _CHOICES):
            return option
    return None
