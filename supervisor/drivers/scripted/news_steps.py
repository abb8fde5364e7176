"""Steps that report news: notices, compactions, the context, names of tools, and subagents.

Rule: an update is sent only if the client has the capability for it.
"""

from __future__ import annotations

from typing import Final

from supervisor.core.errors import ConfigError, short_repr

from .client_steps import ask_permission
from .flags import parse_whole_number
from .turn import ScriptTurn, Step, Waiting
from .wire import Json

WINDOW_TOKENS: Final = 200_000
SEVERITIES: Final = ("info", "warning", "error")
STATES: Final = ("running", "idle", "requires_action")


def notice(turn: ScriptTurn, rest: str) -> None:
    """Send the notice TEXT; SEVERITY is `info`, `warning` or `error`."""
    severity, _, text = rest.partition(" ")
    if severity not in SEVERITIES or not text:
        raise _wrong("notice", rest, "notice SEVERITY TEXT")
    if not _supports(turn, "notices"):
        turn.say("notice: the client shows no notices\n")
        return
    update = {"sessionUpdate": "notice", "severity": severity, "title": text}
    _notify(turn, turn.session.id, update)  # not part of the history, unlike other updates


def compact(turn: ScriptTurn, rest: str) -> None:
    """Compact the context to TOKENS tokens, with the summary TEXT."""
    tokens, _, text = rest.partition(" ")
    left = parse_whole_number("compact", tokens)
    if not text:
        raise _wrong("compact", rest, "compact TOKENS TEXT")
    turn.session.tokens = left
    if not _supports(turn, "compaction"):
        turn.say("compact: the client shows no compactions\n")
        return
    fields = {"compactionId": f"compaction-{turn.session.new_call_id()}"}
    turn.update("compaction_update", {**fields, "status": "in_progress"})
    for part in (text[: len(text) // 2], text[len(text) // 2 :]):
        content = {"type": "text", "text": part}
        turn.update("compaction_summary_chunk", {**fields, "content": content})
    turn.update("usage_update", {"used": left, "size": WINDOW_TOKENS})
    turn.update("compaction_update", {**fields, "status": "completed"})


def window(turn: ScriptTurn, rest: str) -> None:
    """Report a context of SIZE tokens of which USED are used."""
    used, _, size = rest.partition(" ")
    turn.session.tokens = parse_whole_number("window", used)
    update = {"used": turn.session.tokens, "size": parse_whole_number("window", size)}
    turn.update("usage_update", update)


def named_tool(turn: ScriptTurn, rest: str) -> None:
    """Make a tool call with the name NAME and the title TITLE."""
    name, _, title = rest.partition(" ")
    if not title:
        raise _wrong("named-tool", rest, "named-tool NAME TITLE")
    turn.end_call(turn.begin_call(title, name=name), status="completed", result="done")


def subagent(turn: ScriptTurn, rest: str) -> None:
    """Report that the subagent NAME is `running`, `idle` or `requires_action`; let it say TEXT."""
    name, _, more = rest.partition(" ")
    state, _, text = more.partition(" ")
    if state not in STATES:
        raise _wrong("subagent", rest, "subagent NAME STATE [TEXT]")
    if not _supports_subagents(turn):
        turn.say("subagent: the client shows no subagents\n")
        return
    child = _child_id(turn, name)
    turn.update("subagent_update", {"sessionId": child, "title": name, "state": {"state": state}})
    if text:
        content = {"type": "text", "text": text}
        _notify(turn, child, {"sessionUpdate": "agent_message_chunk", "content": content})


def subagent_ask(turn: ScriptTurn, rest: str) -> Waiting[None]:
    """Ask, as the subagent NAME, permission to use TOOL, and say the answer."""
    name, _, tool = rest.partition(" ")
    if not tool:
        raise _wrong("subagent-ask", rest, "subagent-ask NAME TOOL")
    if not _supports_subagents(turn):
        turn.say("subagent-ask: the client shows no subagents\n")
        return
    call = {"toolCallId": "call-of-subagent", "title": tool, "status": "pending"}
    is_allowed = yield from ask_permission(turn, call, session_id=_child_id(turn, name))
    turn.say(f"{name}: {tool}: {'allowed' if is_allowed else 'rejected'}\n")


NEWS_STEPS: Final[dict[str, Step]] = {
    "notice SEVERITY TEXT": notice,
    "compact TOKENS TEXT": compact,
    "window USED SIZE": window,
    "named-tool NAME TITLE": named_tool,
    "subagent NAME STATE [TEXT]": subagent,
    "subagent-ask NAME TOOL": subagent_ask,
}


def _supports(turn: ScriptTurn, what: str) -> bool:
    session = turn.engine_state.client.get("session")
    return isinstance(session, dict) and session.get(what) is not None


def _supports_subagents(turn: ScriptTurn) -> bool:
    return turn.engine_state.client.get("subagents") is not None


def _child_id(turn: ScriptTurn, name: str) -> str:
    return f"{turn.session.id}/{name}"


def _notify(turn: ScriptTurn, session_id: str, update: Json) -> None:
    params = {"sessionId": session_id, "update": update}
    turn.engine_state.outbox.notify("session/update", params)


def _wrong(step: str, rest: str, usage: str) -> ConfigError:
    return ConfigError(f"{step} {short_repr(rest)} is not complete", hint=f"write: {usage}")
