"""The daemon: takes its lock, recovers sessions, listens, drains and exits, in that order.

    code = run(configuration, load=lambda: load(cwd=..., environ=os.environ))

runs the daemon as a process; `serve` runs the daemon inside a trio program. `ExitCode` lists the
exit codes.

Rule 1: names are imported on first use, because `EarlySignals` must be installed before the slow
        imports.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # a local constant: importing `typing` is slow
if TYPE_CHECKING:
    from typing import Any, Final

    from .early_signals import EarlySignals
    from .listeners import DaemonProcess, find_daemon
    from .main import run
    from .service import ExitCode, serve
    from .signals import DaemonSignals
    from .token import ensure_token

_MODULES: Final = {
    "DaemonProcess": "listeners",
    "DaemonSignals": "signals",
    "EarlySignals": "early_signals",
    "ExitCode": "service",
    "ensure_token": "token",
    "find_daemon": "listeners",
    "run": "main",
    "serve": "service",
}

__all__ = [
    "DaemonProcess",
    "DaemonSignals",
    "EarlySignals",
    "ExitCode",
    "ensure_token",
    "find_daemon",
    "run",
    "serve",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the value has the type of the name asked for
    home = _MODULES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{home}", __name__), name)
