"""What went wrong with an agent, in words for people: what it says, and how it has left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from supervisor.core.printable import printable
from supervisor.core.redaction import redacted
from supervisor.core.session import Failure
from supervisor.drivers.acp.rpc.messages import RpcError
from supervisor.drivers.process.port import Exit, Process

_MAX_LETTERS: Final = 2000
_LAST_LINES: Final = 10


def shown(text: str) -> str:
    """As far as it may be shown: printable, short, and with no known secret in it."""
    return redacted(printable(text))[:_MAX_LETTERS]


def described(error: RpcError) -> str:
    """What the agent says went wrong."""
    detail = error.data if isinstance(error.data, str) else _detail_in(error.data)
    said = f"{error.message}: {detail}" if detail and detail != error.message else error.message
    return shown(f"{said} (code {error.code})")


async def wait_exit(process: Process, *, seconds: float) -> Exit | None:
    """How it has left; None if it does not within that time, and then it is killed."""
    with trio.move_on_after(seconds):
        return await process.wait()
    process.kill()
    with trio.move_on_after(seconds):
        await process.wait()
    return None


def failure_to_start(process: Process, exit_: Exit | None, kind: str, why: str) -> Failure:
    """Why it has not come up: what went wrong, or that it has left."""
    if exit_ is not None and kind == "transport":
        kind, why = "process_exit", _shown_exit(exit_)
    return Failure(kind, with_last_words(process, why))


def failure_at_work(process: Process, exit_: Exit | None, why: str | None) -> Failure | None:
    """Why it is gone; None if it has left cleanly, and by itself."""
    if exit_ is None:
        return Failure("transport", with_last_words(process, why or "it does not answer"))
    if exit_.is_clean:
        return None
    return Failure("process_exit", with_last_words(process, _shown_exit(exit_)))


def with_last_words(process: Process, what: str) -> str:
    """With the end of what it has written to standard error."""
    lines = process.stderr_tail().strip().splitlines()[-_LAST_LINES:]
    return shown(what + ("; it said: " + " | ".join(lines) if lines else ""))


def _shown_exit(exit_: Exit) -> str:
    if not exit_.guarded:
        return "its guardian was killed, and it was ended for that"
    if exit_.signal is not None:
        return f"it was killed by signal {exit_.signal}"
    return f"it exited with code {exit_.code}"


def _detail_in(data: object) -> str | None:
    if isinstance(data, Mapping):
        for name in ("details", "detail", "message", "error"):
            if isinstance(data.get(name), str):
                return str(data[name])
    return None
