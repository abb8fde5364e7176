"""A daemon in which a task or thread fails on SIGUSR1: `planted_daemon.py PLANT EXCEPTION`.

PLANT is `module:name` or `module:Class.name` of an async function that runs as a task, or one of
the names in `OTHERS`.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import trio

from supervisor.daemon.__main__ import main
from supervisor.daemon.logging_ import QueuedHandler
from supervisor.daemon.metrics import DaemonMetrics
from supervisor.daemon.systemd import Notifier
from supervisor.store.threads import DedicatedThread

EXCEPTIONS: Final[dict[str, type[Exception]]] = {"memory": MemoryError, "value": ValueError}
# Modules that import the functions by name are loaded first.
_USERS: Final = ("supervisor.runtime", "supervisor.daemon.service", "supervisor.daemon.metrics")

fired = threading.Event()
scopes: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []


def plant_task(target: str, error: type[Exception]) -> None:
    """Make the task fail: its work is cancelled, and it raises the error instead."""
    module_name, _, name = target.partition(":")
    owner: Any = importlib.import_module(module_name)
    *path, last = name.split(".")
    for one in path:
        owner = getattr(owner, one)
    original: Any = getattr(owner, last)

    async def planted(*args: object, **more: object) -> Any:  # noqa: ANN401 - that of the original
        result = None
        with trio.CancelScope() as scope:
            scopes.append((trio.lowlevel.current_trio_token(), scope))
            if fired.is_set():
                scope.cancel()
            result = await original(*args, **more)
        if scope.cancel_called:
            raise error("planted")
        return result

    setattr(owner, last, planted)
    for user in map(importlib.import_module, _USERS):
        if getattr(user, last, None) is original:
            setattr(user, last, planted)


def plant_store_thread(error: type[Exception]) -> None:
    """Make the store's thread fail when it has written something."""
    original = DedicatedThread._deliver

    def deliver(*args: Any) -> bool:  # noqa: ANN401 - those of the original
        if fired.is_set():
            raise error("planted")
        return original(*args)

    DedicatedThread._deliver = deliver  # type: ignore[assignment,method-assign]


def plant_log_thread(error: type[Exception]) -> None:
    """Make the thread of the log fail at its next line."""
    original = QueuedHandler._run

    def run(handler: QueuedHandler) -> None:
        threading.Thread(target=original, args=(handler,), daemon=True).start()
        fired.wait()
        raise error("planted")

    QueuedHandler._run = run  # type: ignore[assignment,method-assign]


def plant_stuck_store(_: type[Exception]) -> None:
    """Make the store's thread hang in its next job, as in an fsync of a dead disk."""
    original = DedicatedThread._deliver

    def deliver(*args: Any) -> bool:  # noqa: ANN401 - those of the original
        if fired.is_set():
            time.sleep(3600)
        return original(*args)

    DedicatedThread._deliver = deliver  # type: ignore[assignment,method-assign]


def plant_stuck_loop(_: type[Exception]) -> None:
    """Make the event loop hang, as in code of an agent that never yields."""
    notifier = Notifier(dict(os.environ))

    async def ping(_: DaemonMetrics) -> None:
        while not fired.is_set():  # noqa: ASYNC110 - set in a signal handler
            await trio.sleep(0.01)
        notifier.status("stuck")
        stuck = threading.Event()
        while True:
            stuck.wait(0.1)  # signal handlers run, tasks do not

    DaemonMetrics._ping = ping  # type: ignore[assignment,method-assign]


OTHERS: Final[dict[str, Callable[[type[Exception]], None]]] = {
    "store thread": plant_store_thread,
    "log thread": plant_log_thread,
    "stuck loop": plant_stuck_loop,
    "stuck store": plant_stuck_store,
}


def fire(*_: object) -> None:
    """Let the plant fail."""
    fired.set()
    for loop, scope in scopes:
        loop.run_sync_soon(scope.cancel)


if __name__ == "__main__":
    plant, exception = sys.argv[1:]
    if plant in OTHERS:
        OTHERS[plant](EXCEPTIONS[exception])
    else:
        plant_task(plant, EXCEPTIONS[exception])
    signal.signal(signal.SIGUSR1, fire)
    sys.exit(main([]))
