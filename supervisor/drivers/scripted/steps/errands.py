"""Steps that have the client do something, and say what came of it; and what the agent knows.

Rule: what the client did not say it can do is not asked of it.
"""

from __future__ import annotations

import shlex
from typing import Final

from supervisor.core.errors import ConfigError, shown
from supervisor.drivers.scripted.turn import Cancelled, Step, Turn, Waiting
from supervisor.drivers.scripted.wire import Json, Reply

from .common import permission

OUTPUT_BYTES: Final = 65_536


def read(turn: Turn, path: str) -> Waiting[None]:
    """Has the client read the file, and says what is in it."""
    if not _has_files(turn, "readTextFile"):
        turn.say(f"read {path}: the client reads no files\n")
        return
    reply = yield from turn.ask("fs/read_text_file", {"path": _absolute(turn, path)})
    turn.say(f"read {path}: {_said(reply, 'content')}\n")


def write(turn: Turn, rest: str) -> Waiting[None]:
    """Has the client write the text to the file, and says whether it did."""
    path, _, text = rest.partition(" ")
    if not _has_files(turn, "writeTextFile"):
        turn.say(f"write {path}: the client writes no files\n")
        return
    params = {"path": _absolute(turn, path), "content": text}
    reply = yield from turn.ask("fs/write_text_file", params)
    turn.say(f"write {path}: {'done' if reply.error is None else _error(reply)}\n")


def terminal(turn: Turn, rest: str) -> Waiting[None]:
    """Has the client run the command as a tool call, and says how that ended and its output."""
    if turn.around.client.get("terminal") is not True:
        turn.say("terminal: the client has none\n")
        return
    command, *words = _command(rest)
    asked = {
        "command": command,
        "args": words,
        "cwd": turn.session.cwd,
        "outputByteLimit": OUTPUT_BYTES,
    }
    made = yield from turn.ask("terminal/create", asked)
    if made.error is not None:
        turn.say(f"terminal: {_error(made)}\n")
        return
    name = _said(made, "terminalId")
    shown_as = [{"type": "terminal", "terminalId": name}]
    call = turn.begin_call(rest, kind="execute", content=shown_as)
    try:
        ended = yield from turn.ask("terminal/wait_for_exit", {"terminalId": name})
        put_out = yield from turn.ask("terminal/output", {"terminalId": name})
    except Cancelled:
        turn.send("terminal/kill", {"terminalId": name})
        turn.send("terminal/release", {"terminalId": name})
        raise
    yield from turn.ask("terminal/release", {"terminalId": name})
    how = _ending(ended)
    turn.end_call(call, status="completed" if how == "exit 0" else "failed")
    turn.say(f"terminal: {how}: {_said(put_out, 'output')}\n")


def ask_tool(turn: Turn, rest: str) -> Waiting[None]:
    """Reports a call of that kind on that path, asks for it, and ends it as it was answered."""
    kind, _, path = rest.partition(" ")
    if not path:
        raise ConfigError(f"ask-tool {shown(rest)} has no path", hint="write: ask-tool KIND PATH")
    more = {"kind": kind, "locations": [{"path": _absolute(turn, path)}]}
    call = turn.begin_call(rest, **{**more, "status": "pending"})
    is_allowed = yield from permission(turn, {"toolCallId": call, "title": rest, **more})
    turn.end_call(call, status="completed" if is_allowed else "failed")
    turn.say(f"{rest}: {'allowed' if is_allowed else 'rejected'}\n")


def context(turn: Turn, _: str) -> None:
    """Says what else was in the prompt: texts as they are, of others the kind and the address."""
    for block in turn.context:
        kind = block.get("type")
        address = block.get("uri") or (block.get("resource") or {}).get("uri") or ""
        turn.say(f"{block['text'] if kind == 'text' else f'{kind} {address}'.strip()}\n")


def servers(turn: Turn, _: str) -> None:
    """Says the names of the MCP servers that the session was given."""
    names = [str(server.get("name")) for server in turn.session.servers]
    turn.say(f"servers: {', '.join(names) or 'none'}\n")


def choices(turn: Turn, _: str) -> None:
    """Says which mode and which options are chosen."""
    chosen = {"mode": turn.session.mode, **turn.session.options}
    turn.say(", ".join(f"{name} {value}" for name, value in chosen.items()) + "\n")


def cwd(turn: Turn, _: str) -> None:
    """Says in which folder the session is to work."""
    turn.say(f"{turn.session.cwd}\n")


def env(turn: Turn, name: str) -> None:
    """Says what the environment has under that name."""
    value = turn.around.environment.get(name)
    turn.say(f"{name} is not set\n" if value is None else f"{name}={value}\n")


def overlaps(turn: Turn, _: str) -> None:
    """Says how many prompts have come while their session was busy with another."""
    turn.say(f"overlaps: {turn.around.overlaps}\n")


def steering(turn: Turn, _: str) -> Waiting[None]:
    """Waits until `enough` is steered in."""
    yield from turn.guidance()


STEPS: Final[dict[str, Step]] = {
    "read PATH": read,
    "write PATH TEXT": write,
    "terminal COMMAND": terminal,
    "ask-tool KIND PATH": ask_tool,
    "steering": steering,
    "context": context,
    "servers": servers,
    "choices": choices,
    "cwd": cwd,
    "env NAME": env,
    "overlaps": overlaps,
}


def _has_files(turn: Turn, what: str) -> bool:
    files = turn.around.client.get("fs")
    return isinstance(files, dict) and files.get(what) is True


def _absolute(turn: Turn, path: str) -> str:
    # Not made any nicer than that: a path that leads out of the workspace is worth asking for.
    return path if path.startswith("/") else f"{turn.session.cwd.rstrip('/')}/{path}"


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words:
        raise ConfigError(f"{shown(text)} is no command", hint="write: terminal COMMAND")
    return words


def _said(reply: Reply, field: str) -> str:
    if reply.error is not None:
        return _error(reply)
    result: Json = reply.result if isinstance(reply.result, dict) else {}
    return str(result.get(field))


def _error(reply: Reply) -> str:
    error: Json = reply.error if isinstance(reply.error, dict) else {}
    return f"error {error.get('code')} {error.get('message')}"


def _ending(reply: Reply) -> str:
    if reply.error is not None:
        return _error(reply)
    result: Json = reply.result if isinstance(reply.result, dict) else {}
    if result.get("signal") is not None:
        return f"signal {result['signal']}"
    return f"exit {result.get('exitCode')}"
