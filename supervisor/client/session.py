"""A session of a daemon, by the names of `supervisor.Session`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from supervisor.core.agent_options import OptionChanges
from supervisor.core.creation import Message
from supervisor.core.errors import ConfigError, InputRefused, RecordNotFound, short_repr
from supervisor.core.info import IDLE_KINDS, Info, is_idle
from supervisor.core.limits import MAX_INT64, Lifetime, Limits, OnEnd
from supervisor.core.receipts import InterruptReport, TurnResult
from supervisor.core.records import Record
from supervisor.core.scopes import Scope
from supervisor.core.session_values import PermissionRule, Phase
from supervisor.core.validation import check_choice, check_integer, check_prompt
from supervisor.handles.arguments import check_role
from supervisor.handles.shapes import Options, Page, Role, TurnRecords, Why

from .arguments import checked_arguments, child_arguments, limits_argument, scope_arguments
from .session_inputs import RemoteInputs
from .transport import SLOW_SECONDS, is_id

if TYPE_CHECKING:
    from supervisor.store.export import ExportFormat
    from supervisor.store.repair import RepairReport

    from .feed import RemoteWatcher


class RemoteSession(RemoteInputs):
    """A handle on a session; see `supervisor.Session` for what the methods do."""

    __slots__ = ()

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
        """Start a child session with `text`; return when its agent has started."""
        arguments = {
            "agent": agent,
            "text": text,
            "role": role,
            "lifetime": lifetime,
            "on_end": on_end,
            "ttl_seconds": ttl_seconds,
            "idempotency_key": idempotency_key,
        }
        return await self._post_for_session("spawn", child_arguments(arguments, options))

    async def wait(self) -> TurnResult:
        """Wait for the result of the text that this child was spawned with."""
        first = await self._transport.request(
            Page[Record], "GET", self._path("events"), {"limit": 1}
        )
        first_input = first.items[0].body["lineage"].get("input")
        if first_input is None:
            raise InputRefused(
                f"session {self.id} was not spawned",
                hint="use result() with a receipt's input_id",
            )
        return await self.result(first_input)

    async def why(self) -> Why:
        """Explain what the session waits for, along the chain of sessions."""
        return await self._transport.request(Why, "GET", self._path("why"))

    # Interrupts ---------------------------------------------------------------------------

    async def interrupt(
        self,
        scope: Scope = "turn",
        reason: str | None = None,
        *,
        replace_with: str | None = None,
        queued: Literal["keep", "cancel"] = "keep",
    ) -> InterruptReport:
        """Interrupt the scope, and wait until it has ended or the ladder is exhausted."""
        arguments = {
            **scope_arguments(scope),
            "reason": reason,
            "replace_with": replace_with,
            "queued": queued,
        }
        path = self._path("interrupt")
        return await self._transport.request(
            InterruptReport,
            "POST",
            path,
            checked_arguments(arguments),
            timeout_seconds=SLOW_SECONDS,
        )

    # The session as a whole -----------------------------------------------------------------

    async def info(self) -> Info:
        """Return a snapshot of everything known about the session."""
        return await self._transport.request(Info, "GET", self._path())

    async def stop(self, when: Literal["now", "after_turn"] = "now") -> None:
        """Stop the session and wait until it has stopped. Cancellation does not undo the stop."""
        info = await self._transport.request(
            Info,
            "POST",
            self._path("stop"),
            checked_arguments({"when": when}),
            timeout_seconds=SLOW_SECONDS,
        )
        if info.phase is not Phase.STOPPED:  # "after_turn": a turn is still running
            await self.wait_stopped()

    async def wait_idle(self) -> Info:
        """Wait until no turn runs or starts and no input is queued; return the session's `Info`.

        A suspended or stopped session is idle too.
        """
        return await self._wait_until(
            lambda info: is_idle(info.phase, queued=info.queued), IDLE_KINDS
        )

    async def wait_stopped(self) -> Info:
        """Wait until the session has stopped."""
        return await self._wait_until(
            lambda info: info.phase is Phase.STOPPED, frozenset({"session_stopped"})
        )

    async def _wait_until(self, condition: Callable[[Info], bool], kinds: frozenset[str]) -> Info:
        """Wait until the condition is met; only records of these kinds can change that."""
        info = await self.info()
        while not condition(info):
            async with self.watch(after=info.last_seq) as feed:
                async for item in feed:
                    if isinstance(item, Record) and item.kind in kinds:
                        break
            info = await self.info()
        return info

    async def resume(self) -> Self:
        """Start a stopped session again: same id, same history; its queued inputs run.

        A running session is returned unchanged.
        """
        await self._post("resume")
        return self

    async def clear(self) -> None:
        """Start a new chapter: an empty conversation; the old records stay readable."""
        await self._post("clear")

    async def append(self, role: Role, text: str) -> None:
        """Add a message to the history without a turn; an agent's role is `assistant`."""
        await self._post("append", {"role": check_role(role), "text": check_prompt(text)})

    async def fork(self, at_turn: str | None = None, *, name: str | None = None) -> RemoteSession:
        """Create a session with this conversation up to the end of a turn (None: the last)."""
        arguments = {"at_turn": at_turn, "name": name}
        return await self._post_for_session("fork", checked_arguments(arguments))

    async def archive(self) -> None:
        """Make a stopped session read-only and free its key and its name."""
        await self._post("archive")

    async def unarchive(self) -> None:
        """Undo `archive`; raise `KeyTaken` or `NameTaken` if those have a holder now."""
        await self._post("unarchive")

    async def seen(self, seq: int) -> None:
        """Record that a person has seen the records up to number `seq`; see `Info.attention`."""
        await self._post("seen", {"seq": check_integer("seq", seq, least=0)})

    async def set(
        self,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        custom: Mapping[str, str] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        name: str | None = None,
        options: OptionChanges | None = None,
        model: str | None = None,
        effort: str | None = None,
        mcp_servers: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Change the given attributes; None leaves one unchanged."""
        arguments = checked_arguments(
            {
                "title": title,
                "tags": tags,
                "custom": custom,
                "name": name,
                "options": options,
                "model": model,
                "effort": effort,
                "mcp_servers": mcp_servers,
            }
        )
        await self._transport.request_bytes(
            "PATCH", self._path(), {**arguments, "limits": limits_argument(limits)}
        )

    async def rules(self) -> list[PermissionRule]:
        """Return the stored permission rules."""
        return list(
            (await self._transport.request(Page[PermissionRule], "GET", self._path("rules"))).items
        )

    async def remove_rule(self, rule_id: str) -> None:
        """Remove a stored permission rule."""
        if not is_id(rule_id):
            raise InputRefused(
                f"no rule has the id {short_repr(rule_id)}", hint="list the rules of the session"
            )
        await self._transport.request_bytes("DELETE", self._path(f"rules/{rule_id}"))

    # Reading ------------------------------------------------------------------------------

    def watch(self, after: int = 0) -> AbstractAsyncContextManager[RemoteWatcher]:
        """Watch the records after number `after` and all later ones, in every phase.

        The feed reconnects when the connection breaks or the daemon restarts.
        """
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise ConfigError(
                f"after is {short_repr(after)}", hint="give the number of a record, or 0"
            )
        query = {"after": after, "follow": True}
        from .feed import RemoteWatcher, open_feed  # noqa: PLC0415 - it needs trio

        return open_feed(RemoteWatcher(self._transport, self._path("stream"), query))

    async def transcript(self) -> list[Message]:
        """Return the messages of the current chapter."""
        return list(
            (await self._transport.request(Page[Message], "GET", self._path("transcript"))).items
        )

    async def history(self) -> list[TurnRecords]:
        """Return all records, grouped by turn."""
        return list(
            (await self._transport.request(Page[TurnRecords], "GET", self._path("history"))).items
        )

    async def export(
        self,
        format: ExportFormat = "markdown",  # noqa: A002 - public name, the same in the CLI and HTTP
        *,
        redact: bool = False,
    ) -> str:
        """Return the session as text: `markdown`, `jsonl` (can be imported) or an `html` page."""
        from supervisor.store.export import ExportFormat  # noqa: PLC0415 - rarely needed

        check_choice("format", format, ExportFormat)
        content = await self._transport.request_bytes(
            "GET",
            self._path("transcript"),
            checked_arguments({"format": format, "redact": redact}),
            timeout_seconds=SLOW_SECONDS,
        )
        return content.decode()

    async def repair(self, *, dry_run: bool = True, force: bool = False) -> RepairReport:
        """Examine the records; without `dry_run`, append the records that close an open turn."""
        from supervisor.store.repair import RepairReport  # noqa: PLC0415 - rarely needed

        return await self._transport.request(
            RepairReport,
            "POST",
            self._path("repair"),
            checked_arguments({"dry_run": dry_run, "force": force}),
            timeout_seconds=SLOW_SECONDS,
        )

    async def replay(self, at: int) -> Info:
        """Return the session's state after the record with that number."""
        if type(at) is not int or not 1 <= at <= MAX_INT64:
            last = (await self.info()).last_seq
            raise RecordNotFound(
                f"session {self.id} has no record {short_repr(at)}",
                hint=f"give a number from 1 to {last}",
            )
        return await self._transport.request(
            Info, "GET", self._path("replay"), {"at": at}, timeout_seconds=SLOW_SECONDS
        )

    # Requests -----------------------------------------------------------------------------

    async def _post(self, suffix: str, arguments: Mapping[str, Any] | None = None) -> None:
        await self._transport.request_bytes(
            "POST", self._path(suffix), arguments, timeout_seconds=SLOW_SECONDS
        )

    async def _post_for_session(self, suffix: str, arguments: Mapping[str, Any]) -> RemoteSession:
        info = await self._transport.request(
            Info, "POST", self._path(suffix), arguments, timeout_seconds=SLOW_SECONDS
        )
        return RemoteSession(self._transport, info.id)
