"""A session of a daemon, by the names of `supervisor.Session`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack

import trio

import supervisor  # for answers that are hardly ever asked for: they come in when they are
from supervisor.api.wire import error_of
from supervisor.core.creation import Message
from supervisor.core.errors import (
    ConfigError,
    InputRefused,
    RecordNotFound,
    SupervisorError,
    shown,
)
from supervisor.core.ids import SessionId
from supervisor.core.info import Info
from supervisor.core.limits import LARGEST, Limits
from supervisor.core.receipts import InterruptReport, Receipt
from supervisor.core.records import Record
from supervisor.core.session import Lifetime, OnEnd, PermissionRule, Phase, WhenBusy
from supervisor.sessions.shell.results import TurnResult
from supervisor.sessions.surface.checks import checked_prompt, known_word, role_of, some_text
from supervisor.sessions.surface.shapes import (
    Input,
    InputState,
    Options,
    Page,
    Role,
    Scope,
    TurnRecords,
    Why,
)

from .errors import AnswerLost, DaemonBusy, NoDaemon
from .given import checked, named, of_child, of_limits
from .line import QUICK_SECONDS, SLOW_SECONDS, Line, is_id
from .watching import RETURN_SECONDS, RemoteWatcher, following

if TYPE_CHECKING:
    from supervisor.store.exporting import Format

# A result is waited for in pieces, so that a line that is dead is noticed.
_WAIT_SECONDS: Final = 20.0
_CONFLICT: Final = 409
_PAUSE_SECONDS: Final = 0.2


class RemoteSession:
    """A handle on a session; see `supervisor.Session` for what the methods do."""

    __slots__ = ("_line", "id")

    def __init__(self, line: Line, session_id: SessionId) -> None:
        self._line = line
        self.id = session_id

    def __repr__(self) -> str:
        return f"<RemoteSession {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteSession) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # Input --------------------------------------------------------------------------------

    async def send(
        self,
        text: str,
        *,
        attachments: Sequence[Mapping[str, Any]] = (),
        when_busy: WhenBusy = "queue",
        idempotency_key: str | None = None,
        ttl_seconds: float | None = None,
        if_stopped: Literal["resume", "reject"] = "resume",
        queued: Literal["keep", "cancel"] = "keep",
    ) -> Receipt:
        """Give the session an input; the receipt says that it is durable, and where it is now."""
        given = {
            "queued": queued,
            "when_busy": when_busy,
            "if_stopped": if_stopped,
            "attachments": attachments,
            "ttl_seconds": ttl_seconds,
            "idempotency_key": idempotency_key,
            "text": text,
        }
        sent = checked(given, needed={"attachments", "text"})
        path = self._path("inputs")
        return await self._line.ask(Receipt, "POST", path, sent, timeout_seconds=SLOW_SECONDS)

    async def prompt(
        self,
        text: str,
        *,
        attachments: Sequence[Mapping[str, Any]] = (),
        when_busy: WhenBusy = "queue",
        idempotency_key: str | None = None,
        ttl_seconds: float | None = None,
        if_stopped: Literal["resume", "reject"] = "resume",
    ) -> TurnResult:
        """`send`, and wait for the end of the turn that the input began, or was steered into."""
        receipt = await self.send(
            text,
            attachments=attachments,
            when_busy=when_busy,
            idempotency_key=idempotency_key,
            ttl_seconds=ttl_seconds,
            if_stopped=if_stopped,
        )
        return await self.result(receipt.input_id)

    async def result(self, input_id: str) -> TurnResult:
        """Wait for the end of the turn that an input began, or was steered into."""
        some_text("input_id", input_id)
        path = self._input(input_id)
        away_since: float | None = None
        while True:
            try:
                state = await self._line.ask(
                    InputState,
                    "GET",
                    path,
                    {"wait": _WAIT_SECONDS},
                    timeout_seconds=_WAIT_SECONDS + QUICK_SECONDS,
                )
            except (AnswerLost, DaemonBusy, NoDaemon):
                # A question that changes nothing; a daemon that is restarted is back in a moment.
                self._line.refuse_if_closed()
                now = trio.current_time()
                away_since = now if away_since is None else away_since
                if now - away_since > RETURN_SECONDS:
                    raise
                await trio.sleep(_PAUSE_SECONDS)
                continue
            away_since = None
            if state.result is not None:
                return state.result
            if state.code is not None:
                raise _error_of(state)

    async def input(self, input_id: str) -> InputState:
        """What has become of an input so far, however long ago it was accepted."""
        some_text("input_id", input_id)
        return await self._line.ask(InputState, "GET", self._input(input_id))

    async def steer(
        self, text: str, *, idempotency_key: str | None = None, ttl_seconds: float | None = None
    ) -> Receipt:
        """Guidance for the turn that is running; raises `NotRunning` if none is."""
        given = {"text": text, "idempotency_key": idempotency_key, "ttl_seconds": ttl_seconds}
        sent = checked(given, needed={"text"})
        return await self._line.ask(Receipt, "POST", self._path("steer"), sent)

    async def inputs(self) -> list[Input]:
        """What is accepted and not settled, in the order in which it will run."""
        return list((await self._line.ask(Page[Input], "GET", self._path("inputs"))).items)

    async def edit_input(self, input_id: str, text: str) -> None:
        """Another text for an input that still waits in the queue."""
        await self._line.fetch("PATCH", self._waiting(input_id), {"text": checked_prompt(text)})

    async def move_input(self, input_id: str, position: int) -> None:
        """Another place in the queue, from 0."""
        if isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise ConfigError(f"position is {shown(position)}", hint="give a whole number, from 0")
        await self._line.fetch("PATCH", self._waiting(input_id), {"position": position})

    async def promote_input(self, input_id: str) -> Receipt:
        """Make guidance for the running turn of what waits in the queue."""
        return await self._line.ask(Receipt, "POST", f"{self._waiting(input_id)}/promote")

    async def cancel_input(self, input_id: str) -> None:
        """Cancel an input that still waits in the queue."""
        await self._line.fetch("DELETE", self._waiting(input_id))

    # The tree -----------------------------------------------------------------------------

    async def spawn(
        self,
        agent: str,
        text: str,
        *,
        role: str | None = "worker",
        lifetime: Lifetime = "with_parent",
        on_end: OnEnd = "tell",
        ttl_seconds: float | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[Options],
    ) -> RemoteSession:
        """A child of this session, at work on `text`; answers when its agent is up."""
        order = {
            "agent": agent,
            "text": text,
            "role": role,
            "lifetime": lifetime,
            "on_end": on_end,
            "ttl_seconds": ttl_seconds,
            "idempotency_key": idempotency_key,
        }
        return await self._other("spawn", of_child(order, options))

    async def wait(self) -> TurnResult:
        """Of a child: wait for the result of the text that it was spawned with."""
        first = await self._line.ask(Page[Record], "GET", self._path("events"), {"limit": 1})
        errand = first.items[0].body["lineage"].get("input")
        if errand is None:
            raise InputRefused(
                f"session {self.id} was not spawned",
                hint="use result() with a receipt's input_id",
            )
        return await self.result(errand)

    async def why(self) -> Why:
        """Why nothing happens here: what it waits for, whom that one waits for, and so on."""
        return await self._line.ask(Why, "GET", self._path("why"))

    # Interrupts ---------------------------------------------------------------------------

    async def interrupt(
        self,
        scope: Scope = "turn",
        reason: str | None = None,
        *,
        replace_with: str | None = None,
        queued: Literal["keep", "cancel"] = "keep",
    ) -> InterruptReport:
        """Interrupt exactly what is named, and wait until it is over or the ladder at its end."""
        given = {
            **named(scope),
            "reason": reason,
            "replace_with": replace_with,
            "queued": queued,
        }
        path = self._path("interrupt")
        return await self._line.ask(
            InterruptReport, "POST", path, checked(given), timeout_seconds=SLOW_SECONDS
        )

    # The session as a whole -----------------------------------------------------------------

    async def info(self) -> Info:
        """One frozen picture of all that is known of it."""
        return await self._line.ask(Info, "GET", self._path())

    async def stop(self, when: Literal["now", "after_turn"] = "now") -> None:
        """Stop it, and wait until it has stopped. Giving up the wait does not undo the stop."""
        info = await self._line.ask(
            Info, "POST", self._path("stop"), checked({"when": when}), timeout_seconds=SLOW_SECONDS
        )
        if info.phase is not Phase.STOPPED:  # a turn may end first, and takes its time
            await self.wait_stopped()

    async def wait_stopped(self) -> Info:
        """Wait until it has stopped."""
        info = await self.info()
        while info.phase is not Phase.STOPPED:
            async with self.watch(after=info.last_seq) as feed:
                async for item in feed:
                    if isinstance(item, Record) and item.kind == "session_stopped":
                        break
            info = await self.info()
        return info

    async def resume(self) -> Self:
        """Start it again: same id, same history, and what was held in its queue runs.

        One that lives is given back as it is.
        """
        await self._do("resume")
        return self

    async def clear(self) -> None:
        """Begin a new chapter: an empty conversation, with the old records still there to read."""
        await self._do("clear")

    async def append(self, role: Role, text: str) -> None:
        """Put a message into the history without a turn; an agent is an `assistant` too."""
        await self._do("append", {"role": role_of(role), "text": checked_prompt(text)})

    async def fork(self, at_turn: str | None = None) -> RemoteSession:
        """A new session with what was said here, up to the end of a turn (the last, if None)."""
        return await self._other("fork", checked({"at_turn": at_turn}))

    async def archive(self) -> None:
        """Make a stopped session read-only, and free its key."""
        await self._do("archive")

    async def unarchive(self) -> None:
        """Undo that; raises `KeyTaken` if another session bears its key now."""
        await self._do("unarchive")

    async def set(
        self,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        custom: Mapping[str, str] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> None:
        """Change what is given, and leave what is None."""
        given = checked({"title": title, "tags": tags, "custom": custom})
        await self._line.fetch("PATCH", self._path(), {**given, "limits": of_limits(limits)})

    async def rules(self) -> list[PermissionRule]:
        """The answers that were given for always."""
        return list((await self._line.ask(Page[PermissionRule], "GET", self._path("rules"))).items)

    async def remove_rule(self, rule_id: str) -> None:
        """Take such an answer back."""
        if not is_id(rule_id):
            raise InputRefused(
                f"there is no rule {shown(rule_id)}", hint="list the rules of the session"
            )
        await self._line.fetch("DELETE", self._path(f"rules/{rule_id}"))

    # Reading ------------------------------------------------------------------------------

    def watch(self, after: int = 0) -> AbstractAsyncContextManager[RemoteWatcher]:
        """Records after number `after`, then whatever comes; in every phase, over sleep and stops.

        It goes on by itself when the line breaks or the daemon is started again.
        """
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise ConfigError(f"after is {shown(after)}", hint="give the number of a record, or 0")
        query = {"after": after, "follow": True}
        return following(RemoteWatcher(self._line, self._path("stream"), query))

    async def transcript(self) -> list[Message]:
        """What was said in the chapter that is open, as a person reads it."""
        return list((await self._line.ask(Page[Message], "GET", self._path("transcript"))).items)

    async def history(self) -> list[TurnRecords]:
        """All records, grouped by turn."""
        return list((await self._line.ask(Page[TurnRecords], "GET", self._path("history"))).items)

    async def export(
        self,
        format: Format = "markdown",  # noqa: A002 - the word that every surface uses for it
        *,
        redact: bool = False,
    ) -> str:
        """All of it as text: `markdown`, `jsonl` (which can be imported) or one `html` page."""
        from supervisor.store.exporting import Format  # noqa: PLC0415 - only for this

        known_word("format", format, Format)
        content = await self._line.fetch(
            "GET",
            self._path("transcript"),
            checked({"format": format, "redact": redact}),
            timeout_seconds=SLOW_SECONDS,
        )
        return content.decode()

    async def repair(self, *, dry_run: bool = True, force: bool = False) -> supervisor.RepairReport:
        """Look whether its records are whole, and without `dry_run` close what was left open."""
        given = checked({"dry_run": dry_run, "force": force})
        return await self._line.ask(
            supervisor.RepairReport,
            "POST",
            self._path("repair"),
            given,
            timeout_seconds=SLOW_SECONDS,
        )

    async def replay(self, at: int) -> Info:
        """How it was when the record of that number had been written."""
        if type(at) is not int or not 1 <= at <= LARGEST:
            last = (await self.info()).last_seq
            raise RecordNotFound(
                f"session {self.id} has no record {shown(at)}",
                hint=f"give a number from 1 to {last}",
            )
        return await self._line.ask(
            Info, "GET", self._path("replay"), {"at": at}, timeout_seconds=SLOW_SECONDS
        )

    # Inside -------------------------------------------------------------------------------

    def _path(self, below: str = "") -> str:
        return f"v1/sessions/{self.id}" + (f"/{below}" if below else "")

    def _input(self, input_id: str) -> str:
        if not is_id(input_id):
            raise InputRefused(
                f"session {self.id} has accepted no input {shown(input_id)}",
                hint="the receipt of send() has the id",
            )
        return self._path(f"inputs/{input_id}")

    def _waiting(self, input_id: str) -> str:
        if not is_id(input_id):
            raise InputRefused(
                f"no input {shown(input_id)} is waiting in session {self.id}",
                hint="it was settled already, or never accepted: list the inputs",
            )
        return self._path(f"inputs/{input_id}")

    async def _do(self, what: str, given: Mapping[str, Any] | None = None) -> None:
        await self._line.fetch("POST", self._path(what), given, timeout_seconds=SLOW_SECONDS)

    async def _other(self, what: str, given: Mapping[str, Any]) -> RemoteSession:
        info = await self._line.ask(
            Info, "POST", self._path(what), given, timeout_seconds=SLOW_SECONDS
        )
        return RemoteSession(self._line, info.id)


def _error_of(state: InputState) -> SupervisorError:
    plain = {"code": state.code, "detail": state.detail, "hint": state.hint}
    return error_of(plain, status=_CONFLICT)
