"""The long-lived process: lock, recover, listen, and leave in order; ready means ready.

    code = run(configuration, load=lambda: load(cwd=..., environ=os.environ))

is all that a command line needs. `serve` is the same for whoever has a loop already. `listening`
has sockets and connections, `system` has signals and systemd, `telling` has log lines. What its
exit code says is in `exits`.

Its names are imported when they are asked for: signals have to be held before all that is.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as `typing` has it
if TYPE_CHECKING:
    from typing import Any, Final

    from .exits import Exit
    from .finding import DaemonProcess, find_daemon
    from .listening.token import ensure_token, read_token
    from .running import run
    from .serving import serve
    from .system.held import HeldSignals
    from .system.orders import Orders

_HOME_OF: Final = {
    "DaemonProcess": "finding",
    "Exit": "exits",
    "HeldSignals": "system.held",
    "Orders": "system.orders",
    "ensure_token": "listening.token",
    "find_daemon": "finding",
    "read_token": "listening.token",
    "run": "running",
    "serve": "serving",
}

__all__ = [
    "DaemonProcess",
    "Exit",
    "HeldSignals",
    "Orders",
    "ensure_token",
    "find_daemon",
    "read_token",
    "run",
    "serve",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever bears the name
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{home}", __name__), name)
