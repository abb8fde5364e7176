"""The public handle on one session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, Unpack

import trio

from supervisor.core import events as ev
from supervisor.core.agent_options import OptionChanges, requested_options
from supervisor.core.errors import (
    ConfigError,
    InputRefused,
    RecordNotFound,
    SupervisorError,
    short_repr,
)
from supervisor.core.ids import RequestId
from supervisor.core.info import Info, is_idle
from supervisor.core.limits import Lifetime, Limits, OnEnd
from supervisor.core.mcp_server_list import check_mcp_servers
from supervisor.core.receipts import InterruptReport, TurnResult
from supervisor.core.state import PermissionRule, Phase
from supervisor.core.step import InterruptPending
from supervisor.core.validation import (
    check_choice,
    check_custom,
    check_integer,
    check_name,
    check_prompt,
    check_session_name,
    check_tags,
)

from .arguments import change_limits, check_role
from .interrupts import interrupt
from .session_base import SessionInputs, SessionRecords
from .shapes import Options, Role, Scope, Why
from .specs import fork, make_spawn_request
from .submission import make_idempotency
from .why import why


class Session(SessionInputs, SessionRecords):
    """A handle on one session, by its id.

    A handle can be made for any id and stays valid as long as the supervisor is open. Every method
    raises `SessionNotFound` if the session does not exist, and `SessionNotActive` after the
    supervisor has closed. Handles with the same id are equal.
    """

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
    ) -> Session:
        """Start a child session with `text` as its first input; return it when its agent is up.

        The child stops with this session unless its lifetime is `detached`, and stops after
        `ttl_seconds` if that is given. The options are those of `Supervisor.create`; without
        `limits` and `permissions` the child has those of its parent.

        Raise `SpawnRefused` with the exhausted limit (`limit`, `used`, `allowed`), `NameTaken` if
        a session of the tree holds the name, `AgentUnknown` or `AgentStartFailed`. If the call is
        cancelled, the spawn continues; with an `idempotency_key` the same request returns the same
        child.
        """
        request = make_spawn_request(
            self._parts,
            agent,
            text,
            role=role,
            lifetime=lifetime,
            on_end=on_end,
            ttl_seconds=ttl_seconds,
            turn=self._turn,
            options=options,
        )
        idempotency = make_idempotency(idempotency_key, request)
        child = await self._parts.spawner.spawn(
            self.id, request, idempotency, inside=self._calling_session()
        )
        return Session(self._parts, child)

    async def wait(self) -> TurnResult:
        """Wait for the turn that runs this child's first input; return its result.

        The child stays idle afterwards and counts as live until it stops. Raise `InputRefused` if
        the session was not spawned, and as `result` does. Cancelling the call changes nothing.
        """
        with self._mark_awaited():
            first_input = (await self._row()).lineage.input
            if first_input is None:
                raise InputRefused(
                    f"session {self.id} was not spawned",
                    hint="use result() with a receipt's input_id",
                )
            return await self.result(first_input)

    async def why(self) -> Why:
        """Explain what the session waits for; return the chain of sessions that wait.

        If the session waits for another session, the chain continues with that session. `str()` of
        the result is text for people. Sessions that wait for each other are reported as a cycle.
        """
        return await why(self._parts, self.id)

    # Interrupts ---------------------------------------------------------------------------

    async def interrupt(
        self,
        scope: Scope = "turn",
        reason: str | None = None,
        *,
        replace_with: str | None = None,
        queued: Literal["keep", "cancel"] = "keep",
    ) -> InterruptReport:
        """Interrupt the scope; return a report when it has ended or the ladder is exhausted.

        Only the scope is interrupted, and no session is stopped. If the target has ended already,
        nothing changes and the report says so. `replace_with` is the next input to run, before all
        queued inputs; `queued="cancel"` cancels the queued inputs, with the scopes `session` and
        `tree` also if no turn runs. The scope `tree` covers this session and its descendants:
        level by level from the deepest, the sessions of a level concurrently, and none of them can
        spawn until it is over.

        Raise `ConfigError` for an invalid scope, and as `send` does for `replace_with`. Cancelling
        the call does not undo the interrupt.
        """
        return await interrupt(
            self._parts,
            self.id,
            scope,
            reason=reason,
            replace_with=replace_with,
            queued=queued,
            source=self._source(),
        )

    # The session as a whole -----------------------------------------------------------------

    async def info(self) -> Info:
        """Return a frozen snapshot of the session."""
        self._parts.services.refuse_if_closed()
        slot = self._parts.registry.find_slot(self.id)
        if slot is not None and slot.session is not None and slot.log is not None:
            await trio.lowlevel.checkpoint()
            if slot.session is not None and slot.log is not None:
                return self._parts.info(slot.session, last_seq=slot.log.published_seq)
        stored = await self._parts.registry.stored(self.id)
        return self._parts.info(stored.row, last_seq=stored.last_seq)

    async def stop(self, when: Literal["now", "after_turn"] = "now") -> None:
        """Stop the session, and return when it has stopped.

        `after_turn` lets a running turn finish first. While the store is degraded, the call
        returns at once for a session without a running agent, which is then stopped when the store
        recovers. Raise `StoreDegraded` if the store is read-only. Cancelling the call does not
        undo the stop.
        """
        check_choice("when", when, Literal["now", "after_turn"])
        await self._parts.router.stop_for_user(self.id, after_turn=when == "after_turn")

    async def wait_idle(self) -> Info:
        """Wait until no turn runs or starts and no input is queued; return the session's `Info`.

        A suspended session is idle too, and so is a stopped one: inputs that it holds run only
        after a resume. Return at once if the session is idle already. Raise `InputRefused` if the
        session's own agent calls it. Cancelling the call changes nothing.
        """
        self._refuse_own_session("wait_idle()", "return from the turn, then it can be idle")
        with self._mark_awaited():
            while True:
                await self._parts.registry.wait_until(
                    self.id, lambda row: is_idle(row.phase, queued=len(row.inputs))
                )
                info = await self.info()
                if is_idle(info.phase, queued=info.queued):  # else another input came meanwhile
                    return info

    async def wait_stopped(self) -> Info:
        """Wait until the session has stopped; return its `Info`.

        Raise `InputRefused` if the session's own agent calls it. Cancelling the call changes
        nothing.
        """
        self._refuse_own_session("wait_stopped()", "return from the turn, then it can stop")
        with self._mark_awaited():
            await self._parts.registry.wait_until(
                self.id, lambda session: session.phase is Phase.STOPPED
            )
        return await self.info()

    async def resume(self) -> Self:
        """Start a stopped session again, and return this handle when its agent is up.

        Id and history stay the same, and the queued inputs run. A session that is not stopped is
        unchanged. Raise `KeyTaken` or `NameTaken` if another session now holds its key or name,
        `SessionNotActive` if it is archived, and `AgentStartFailed` if its agent does not start. If
        the call is cancelled, the session may be resumed.
        """
        await self._parts.lifecycle.resume(self.id)
        return self

    async def clear(self) -> None:
        """Start a new chapter: an empty conversation; the old records stay readable.

        A running turn is interrupted and the queued inputs are cancelled; inputs sent from then on
        belong to the new chapter. Return when the interrupted turn has ended. Raise `InputRefused`
        while the agent starts or if the session's own agent calls it, and `SessionNotActive` if
        the session is stopping or archived. Cancelling the call does not undo it.
        """
        self._refuse_own_session("clear()", "clear it outside this agent, or after the turn")
        self._parts.services.refuse_if_shutting_down()
        answer = await self._ask(ev.ClearRequested(**self._stamp()))
        if isinstance(answer, InterruptPending):
            await self._parts.registry.wait_until(
                self.id, lambda row: row.turn is None or row.turn.id != answer.turn
            )

    async def append(self, role: Role, text: str) -> None:
        """Append a message to the history without a turn; `assistant` is the same as `agent`.

        An ACP agent, which keeps the conversation itself, gets the message with its next input.
        Raise `InputRefused` while a turn runs or the agent starts, `InputTooLarge` if the text is
        too long, and `SessionNotActive` if the session is stopping or archived.
        """
        message = ev.MessageAppended(
            role=check_role(role), text=check_prompt(text), **self._stamp()
        )
        await self._ask(message)

    async def fork(self, at_turn: str | None = None, *, name: str | None = None) -> Session:
        """Create a session with this conversation up to the end of a turn; return its handle.

        Without `at_turn`, all turns that have ended are copied. Without `name`, it has the name
        of this session, with a number if that is taken. Raise `InputRefused` if that turn has not
        ended in this session, and as `Supervisor.create` does: `NameTaken` for a given name. If
        the call is cancelled, the creation continues.
        """
        return Session(self._parts, await fork(self._parts, self.id, at_turn, name))

    async def archive(self) -> None:
        """Make a stopped session read-only, and free its key and its name.

        Its queued inputs are cancelled. Raise `SessionNotActive` if the session is not stopped.
        Cancelling the call does not undo it.
        """
        await self._parts.lifecycle.archive(self.id)

    async def unarchive(self) -> None:
        """Undo `archive`; the session stays stopped.

        Raise `KeyTaken` or `NameTaken` if another session holds its key or name now, and
        `SessionNotActive` if the session is not stopped.
        """
        await self._parts.lifecycle.unarchive(self.id)

    async def seen(self, seq: int) -> None:
        """Record that a person has seen the records up to number `seq`.

        What a person should look at (`Info.attention`) is removed as far as its record was seen; an
        open permission request, question, login or stall stays. A call that says nothing new adds
        no record, and so does one for an archived session. Raise `RecordNotFound` if the session
        has no such record, and `StoreDegraded` while the store cannot write.
        """
        check_integer("seq", seq, least=0)
        last_seq = (await self.info()).last_seq
        if seq > last_seq:
            raise RecordNotFound(
                f"session {self.id} has no record {seq}",
                hint=f"give the number of the last record that was shown, at most {last_seq}",
            )
        await self._ask(ev.RecordsSeen(seq=seq, **self._stamp()))

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
        """Change the given attributes; None leaves an attribute unchanged.

        A `Limits` replaces all limits of the session; a mapping such as `{"tokens": 5000}` changes
        only the limits that it names. `options` are those of the agent, by id or by the short names
        `mode`, `model` and `effort`; `model=` and `effort=` are the same. They apply from the next
        turn, and again after a restart of the agent; the value None leaves that to the agent.
        `mcp_servers` replace those given before, from the next start of the agent; see `create`.

        Raise `ConfigError` for an invalid value, `InvalidOverride` for an option or a value that
        the agent does not offer, `NameTaken` if another session holds the name, and
        `SessionNotActive` if the session is archived.
        """
        if name is not None:
            name = check_session_name(name)
        servers = None if mcp_servers is None else check_mcp_servers(mcp_servers)
        if title is not None:
            title = check_name("title", title)
        change = ev.DetailsChanged(
            title=title,
            tags=None if tags is None else check_tags(tags),
            custom=None if custom is None else check_custom(custom),
            name=name,
            options=requested_options(options, model=model, effort=effort),
            mcp_servers=None if servers is None else tuple(one["name"] for one in servers),
            by=self._source(),
            **self._stamp(),
        )
        given = self._parts.services.given_servers
        before = given.of(self.id)
        if servers is not None:  # first, because the agent may start as soon as it is recorded
            given.put(self.id, servers)
        try:
            await self._change(change, limits)
        except SupervisorError:
            given.put(self.id, before)
            raise

    async def _change(
        self, change: ev.DetailsChanged, limits: Limits | Mapping[str, Any] | None
    ) -> None:
        if isinstance(limits, Mapping) and limits:
            # Exclusive, so that of two callers who change different limits neither is overwritten.
            name = f"limits of {self.id}"
            tasks = self._parts.services.detached_tasks
            await tasks.exclusive(name, self._change_limits, change, limits)
        elif limits is None or isinstance(limits, Limits):
            await self._ask(change.changed(limits=limits))
        else:
            raise ConfigError(
                f"limits is {short_repr(limits)}", hint="give supervisor.Limits(...), or a mapping"
            )

    async def _change_limits(self, change: ev.DetailsChanged, limits: Mapping[str, Any]) -> None:
        current = (await self.info()).limits
        await self._ask(change.changed(limits=change_limits(current, limits)))

    async def rules(self) -> list[PermissionRule]:
        """Return the permission rules: decisions of allow_always and reject_always."""
        return list((await self._row()).rules)

    async def remove_rule(self, rule_id: str) -> None:
        """Remove a permission rule; raise `InputRefused` if the session has no such rule."""
        await self._ask(ev.RuleRemoved(rule=RequestId(rule_id), **self._stamp()))
