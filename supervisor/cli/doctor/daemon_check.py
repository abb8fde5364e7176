"""Checks of the daemon: it runs, it answers, and it has the installed version."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from supervisor.cli.commands.completion import installed_version
from supervisor.cli.text_format import format_timestamp
from supervisor.daemon.listeners import find_daemon, find_lock_holder

from .findings import Finding, error, ok, warning

_SECONDS: Final = 5.0
# Size of `sun_path` in the kernel.
_MAX_SOCKET_PATH_BYTES: Final = 107
_MAX_IDS_SHOWN: Final = 5

# Codes of findings about a store that a daemon may refuse.
_REFUSED_STORES: Final = frozenset({"store-unreadable", "store-damaged"})

NOT_RUNNING: Final = ok("daemon", "not running; `understudy serve` starts it")

GetJson = Callable[[str], Any]


def check_daemon(socket: str, *, seconds: float = _SECONDS) -> Iterator[Finding]:
    """Check the daemon's socket and, if it runs, its answers."""
    if len(os.fsencode(socket)) > _MAX_SOCKET_PATH_BYTES:
        yield error(
            "daemon",
            "socket-path",
            f"{socket} is longer than {_MAX_SOCKET_PATH_BYTES} bytes, the limit for a socket path",
            "set a shorter path in daemon.socket",
        )
        return
    found = find_daemon(socket)
    if found is None:
        yield _check_lock_holder(socket, find_lock_holder(socket))
        return
    since = "" if found.since is None else f", since {format_timestamp(found.since)}"
    yield from check_running_daemon(
        f"process {found.pid} listens on {socket}{since}",
        lambda path: _get_json(socket, path, seconds),
    )


def _check_lock_holder(socket: str, holder: str | None) -> Finding:
    if holder is None:
        return NOT_RUNNING
    return warning(
        "daemon",
        "daemon-not-listening",
        f"{holder} has the lock of {socket}, and does not listen: it starts or exits, waits for"
        " room on the disk, or its socket was deleted",
        "see its log; it listens within two seconds of room, or of the loss of its socket",
    )


def check_start(store: Path, findings: Sequence[Finding]) -> Finding:
    """Check that a daemon that does not run can start with its store, which has the findings."""
    problems = [one.code for one in findings if one.code in _REFUSED_STORES]
    if not problems:
        return NOT_RUNNING
    return warning(
        "daemon",
        "daemon-not-running",
        f"not running, and `understudy serve` may refuse its store {store}: {problems[0]}",
        f"correct {problems[0]} first",
    )


def check_running_daemon(who: str, ask: GetJson) -> Iterator[Finding]:
    """Check the daemon's answers."""
    try:
        version, stats = ask("/v1/version")["version"], ask("/v1/stats")
        store, damaged = stats["store"], stats.get("damaged", ())
    except (OSError, ValueError, KeyError, TypeError) as problem:
        yield error(
            "daemon",
            "daemon-silent",
            f"{who}, but does not answer: {str(problem) or type(problem).__name__}",
            "see its log, and restart it",
        )
        return
    ours = installed_version("understudy")
    if version != ours:
        yield warning(
            "daemon",
            "daemon-of-another-version",
            f"{who}, but runs understudy {version}; installed is {ours}",
            "restart it, so that it runs the installed version",
        )
    if store["degraded"]:
        yield error(
            "daemon",
            "store-degraded",
            f"{who}, but cannot write: {store['problem']}",
            store["hint"],
        )
    yield from check_damaged_sessions(who, damaged)
    findings = store.get("findings", ())
    for one in findings:
        yield from check_store_finding(one["code"], f"{who}; {one['detail']}", one["hint"])
    if version == ours and not (store["degraded"] or damaged or findings):
        yield ok("daemon", who)


def check_store_finding(code: str, detail: str, hint: str) -> Iterator[Finding]:
    """Report loss or damage of the file, which the store has found."""
    if code == "records-lost":
        yield error("store", "records-lost", detail, hint)
    else:
        yield error("store", "store-damaged", detail, hint)


def check_damaged_sessions(who: str, damaged: Sequence[str]) -> Iterator[Finding]:
    """Check for sessions whose row is damaged."""
    if damaged:
        named = " ".join(damaged[:_MAX_IDS_SHOWN])
        more = " and others" if len(damaged) > _MAX_IDS_SHOWN else ""
        yield error(
            "store",
            "session-damaged",
            f"{who}, but {len(damaged)} of its sessions are damaged: {named}{more}",
            f"`understudy repair {damaged[0]}` shows the problems; --write rebuilds the row from"
            " the records, and `understudy rm` deletes the session",
        )


def _get_json(socket: str, path: str, seconds: float) -> Any:  # noqa: ANN401 - any JSON value
    """Return the answer on the socket; raise OSError if there is none in time."""
    import httpx  # noqa: PLC0415 - slow to import, and only needed if a daemon listens

    try:
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=socket), base_url="http://localhost", timeout=seconds
        ) as http:
            return http.get(path).raise_for_status().json()
    except httpx.HTTPError as problem:
        raise OSError(str(problem)) from problem
