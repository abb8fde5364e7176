"""Steps that send requests to the client, and steps that print the session's parameters.

Rule: a request is sent only if the client has the capability for it.
"""

from __future__ import annotations

import shlex
from typing import Final

from supervisor.core.errors import ConfigError, short_repr

from .turn import MODES, ScriptTurn, Step, TurnCancelled, Waiting
from .wire import ClientReply, Json


def ask_permission(turn: ScriptTurn, call: Json, *, session_id: str | None = None) -> Waiting[bool]:
    """Ask permission for a tool call; return True only if the client allows it.

    `session_id` is that of a subagent; without it the conversation itself asks.
    """
    kinds = {
        f"option-{place}": kind for place, kind in enumerate(turn.engine_state.flags.offers, 1)
    }
    options = [
        {"optionId": option, "name": kind.replace("_", " "), "kind": kind}
        for option, kind in kinds.items()
    ]
    params: Json = {"toolCall": call, "options": options}
    if session_id is not None:
        params["sessionId"] = session_id
    reply = yield from turn.ask("session/request_permission", params)
    outcome = reply.result.get("outcome") if isinstance(reply.result, dict) else None
    chosen = outcome.get("optionId") if isinstance(outcome, dict) else None
    return isinstance(chosen, str) and kinds.get(chosen, "").startswith("allow")


OUTPUT_BYTES: Final = 65_536


def read(turn: ScriptTurn, path: str) -> Waiting[None]:
    """Ask the client to read the file PATH, and say its contents."""
    if not _client_supports_files(turn, "readTextFile"):
        turn.say(f"read {path}: the client cannot read files\n")
        return
    reply = yield from turn.ask("fs/read_text_file", {"path": _absolute(turn, path)})
    turn.say(f"read {path}: {_result_field(reply, 'content')}\n")


def write(turn: ScriptTurn, rest: str) -> Waiting[None]:
    """Ask the client to write TEXT to the file PATH, and say the result."""
    path, _, text = rest.partition(" ")
    if not _client_supports_files(turn, "writeTextFile"):
        turn.say(f"write {path}: the client cannot write files\n")
        return
    params = {"path": _absolute(turn, path), "content": text}
    reply = yield from turn.ask("fs/write_text_file", params)
    turn.say(f"write {path}: {'done' if reply.error is None else _describe_error(reply)}\n")


def terminal(turn: ScriptTurn, rest: str) -> Waiting[None]:
    """Ask the client to run COMMAND as a tool call, and say its exit and output."""
    if turn.engine_state.client.get("terminal") is not True:
        turn.say("terminal: the client has no terminals\n")
        return
    command, *words = _command(rest)
    params = {
        "command": command,
        "args": words,
        "cwd": turn.session.cwd,
        "outputByteLimit": OUTPUT_BYTES,
    }
    created = yield from turn.ask("terminal/create", params)
    if created.error is not None:
        turn.say(f"terminal: {_describe_error(created)}\n")
        return
    name = _result_field(created, "terminalId")
    content = [{"type": "terminal", "terminalId": name}]
    call = turn.begin_call(rest, kind="execute", content=content)
    try:
        ended = yield from turn.ask("terminal/wait_for_exit", {"terminalId": name})
        output = yield from turn.ask("terminal/output", {"terminalId": name})
    except TurnCancelled:
        turn.send("terminal/kill", {"terminalId": name})
        turn.send("terminal/release", {"terminalId": name})
        raise
    yield from turn.ask("terminal/release", {"terminalId": name})
    end = _describe_exit(ended)
    turn.end_call(call, status="completed" if end == "exit 0" else "failed")
    turn.say(f"terminal: {end}: {_result_field(output, 'output')}\n")


def ask_tool(turn: ScriptTurn, rest: str) -> Waiting[None]:
    """Make a tool call of KIND on PATH, ask permission for it, and end it."""
    kind, _, path = rest.partition(" ")
    if not path:
        raise ConfigError(
            f"ask-tool {short_repr(rest)} has no path", hint="write: ask-tool KIND PATH"
        )
    more = {"kind": kind, "locations": [{"path": _absolute(turn, path)}]}
    call = turn.begin_call(rest, **{**more, "status": "pending"})
    is_allowed = yield from ask_permission(turn, {"toolCallId": call, "title": rest, **more})
    turn.end_call(call, status="completed" if is_allowed else "failed")
    turn.say(f"{rest}: {'allowed' if is_allowed else 'rejected'}\n")


def context(turn: ScriptTurn, _: str) -> None:
    """Say the other blocks of the prompt: texts as they are, others as kind and address."""
    for block in turn.context:
        kind = block.get("type")
        address = block.get("uri") or (block.get("resource") or {}).get("uri") or ""
        turn.say(f"{block['text'] if kind == 'text' else f'{kind} {address}'.strip()}\n")


def servers(turn: ScriptTurn, _: str) -> None:
    """Say the names of the session's MCP servers."""
    names = [str(server.get("name")) for server in turn.session.servers]
    turn.say(f"servers: {', '.join(names) or 'none'}\n")


def choices(turn: ScriptTurn, _: str) -> None:
    """Say the current mode and options."""
    chosen = {"mode": turn.session.mode, **turn.session.options}
    turn.say(", ".join(f"{name} {value}" for name, value in chosen.items()) + "\n")


def choose(turn: ScriptTurn, rest: str) -> None:
    """Change an option, or the mode, without being asked to, and report it."""
    name, _, text = rest.partition(" ")
    session, client = turn.session, turn.engine_state.client
    if name == "mode" and text in MODES:
        session.mode = text
        turn.update("current_mode_update", {"currentModeId": text})
    elif session.choose(name, _SWITCH.get(text, text), client):
        turn.update("config_option_update", {"configOptions": session.config_options(client)})
    else:
        raise ConfigError(
            f"choose {short_repr(rest)} names no option and value of it",
            hint="write: choose NAME VALUE",
        )


_SWITCH: Final = {"true": True, "false": False}


def cwd(turn: ScriptTurn, _: str) -> None:
    """Say the working directory of the session."""
    turn.say(f"{turn.session.cwd}\n")


def env(turn: ScriptTurn, name: str) -> None:
    """Say the value of the environment variable NAME."""
    value = turn.engine_state.environment.get(name)
    turn.say(f"{name} is not set\n" if value is None else f"{name}={value}\n")


def overlaps(turn: ScriptTurn, _: str) -> None:
    """Say how many prompts arrived while their session had a running turn."""
    turn.say(f"overlaps: {turn.engine_state.overlaps}\n")


def steering(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Wait until the client steers with `enough`."""
    yield from turn.wait_for_steering()


CLIENT_STEPS: Final[dict[str, Step]] = {
    "read PATH": read,
    "write PATH TEXT": write,
    "terminal COMMAND": terminal,
    "ask-tool KIND PATH": ask_tool,
    "steering": steering,
    "context": context,
    "servers": servers,
    "choices": choices,
    "choose NAME VALUE": choose,
    "cwd": cwd,
    "env NAME": env,
    "overlaps": overlaps,
}


def _client_supports_files(turn: ScriptTurn, what: str) -> bool:
    files = turn.engine_state.client.get("fs")
    return isinstance(files, dict) and files.get(what) is True


def _absolute(turn: ScriptTurn, path: str) -> str:
    # Not normalised: scripts also ask for paths that lead out of the workspace.
    return path if path.startswith("/") else f"{turn.session.cwd.rstrip('/')}/{path}"


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words:
        raise ConfigError(f"{short_repr(text)} is not a command", hint="write: terminal COMMAND")
    return words


def _result_field(reply: ClientReply, field: str) -> str:
    if reply.error is not None:
        return _describe_error(reply)
    result: Json = reply.result if isinstance(reply.result, dict) else {}
    return str(result.get(field))


def _describe_error(reply: ClientReply) -> str:
    error: Json = reply.error if isinstance(reply.error, dict) else {}
    return f"error {error.get('code')} {error.get('message')}"


def _describe_exit(reply: ClientReply) -> str:
    if reply.error is not None:
        return _describe_error(reply)
    result: Json = reply.result if isinstance(reply.result, dict) else {}
    if result.get("signal") is not None:
        return f"signal {result['signal']}"
    return f"exit {result.get('exitCode')}"
