"""Failures of an agent as text for users, from its errors, its exit and its standard error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from supervisor.core.state import Failure
from supervisor.core.text import printable, redact
from supervisor.drivers.process.processes import AgentProcess, ProcessExit

from .rpc_messages import RpcError

_MAX_LETTERS: Final = 2000

_STDERR_LINES: Final = 10


def safe_text(text: str) -> str:
    """Return the text printable, bounded and with known secrets redacted."""
    return redact(printable(text))[:_MAX_LETTERS]


def describe_rpc_error(error: RpcError) -> str:
    """Return the agent's error message, detail and code."""
    detail = error.data if isinstance(error.data, str) else _error_detail(error.data)
    text = f"{error.message}: {detail}" if detail and detail != error.message else error.message
    return safe_text(f"{text} (code {error.code})")


def start_failure(process: AgentProcess, exit_: ProcessExit | None, kind: str, why: str) -> Failure:
    """Return why the agent did not start; an exit counts before a lost connection."""
    if exit_ is not None and kind == "transport":
        kind, why = "process_exit", _describe_exit(exit_)
    return Failure(kind, with_stderr_tail(process, why))


def exit_failure(
    process: AgentProcess, exit_: ProcessExit | None, why: str | None
) -> Failure | None:
    """Return why the agent ended; None for a clean exit of its own."""
    if exit_ is None:
        return Failure("transport", with_stderr_tail(process, why or "it does not answer"))
    if exit_.is_clean:
        return None
    return Failure("process_exit", with_stderr_tail(process, _describe_exit(exit_)))


def with_stderr_tail(process: AgentProcess, text: str) -> str:
    """Return the text with the last lines of the agent's standard error."""
    lines = process.stderr_tail().strip().splitlines()[-_STDERR_LINES:]
    return safe_text(text + ("; it said: " + " | ".join(lines) if lines else ""))


def _describe_exit(exit_: ProcessExit) -> str:
    if not exit_.guarded:
        return "its guardian was killed, so the agent was killed too"
    if exit_.signal is not None:
        return f"it was killed by signal {exit_.signal}"
    return f"it exited with code {exit_.code}"


def _error_detail(data: object) -> str | None:
    if isinstance(data, Mapping):
        for name in ("details", "detail", "message", "error"):
            if isinstance(data.get(name), str):
                return str(data[name])
    return None
