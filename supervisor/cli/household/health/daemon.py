"""The daemon: whether one is running, answers, and is the one that was installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from supervisor.cli.household.version import installed
from supervisor.cli.terminal.times import stamp
from supervisor.daemon.finding import find_daemon

from .finding import Finding, error, ok, warning

_SECONDS: Final = 5.0
# What fits into the kernel's `sun_path`.
_LONGEST_PATH: Final = 107
_MOST_NAMED: Final = 5

Ask = Callable[[str], Any]


def look_at_daemon(socket: str, *, seconds: float = _SECONDS) -> Iterator[Finding]:
    """Whether one is running, and how it is."""
    if len(os.fsencode(socket)) > _LONGEST_PATH:
        yield error(
            "daemon",
            "socket-path",
            f"{socket} is longer than the {_LONGEST_PATH} bytes that a socket's path may have",
            "name a shorter one in daemon.socket",
        )
        return
    found = find_daemon(socket)
    if found is None:
        yield ok("daemon", "none is running; `understudy serve` starts one")
        return
    since = "" if found.since is None else f", since {stamp(found.since)}"
    yield from look_at_running(
        f"process {found.pid} listens on {socket}{since}", lambda path: _ask(socket, path, seconds)
    )


def look_at_running(who: str, ask: Ask) -> Iterator[Finding]:
    """Whether it answers, and what."""
    try:
        version, stats = ask("/v1/version")["version"], ask("/v1/stats")
        store, damaged = stats["store"], stats.get("damaged", ())
    except (OSError, ValueError, KeyError, TypeError) as problem:
        yield error(
            "daemon",
            "daemon-silent",
            f"{who}, and gives no answer: {str(problem) or type(problem).__name__}",
            "see its log, and start it again",
        )
        return
    ours = installed("understudy")
    if version != ours:
        yield warning(
            "daemon",
            "daemon-of-another-version",
            f"{who}, and is understudy {version}; this is {ours}",
            "start it again, so that it is the one that is installed",
        )
    if store["degraded"]:
        yield error(
            "daemon",
            "store-degraded",
            f"{who}, and cannot write: {store['problem']}",
            store["hint"],
        )
    yield from look_at_damaged(who, damaged)
    if version == ours and not store["degraded"] and not damaged:
        yield ok("daemon", who)


def look_at_damaged(who: str, damaged: Sequence[str]) -> Iterator[Finding]:
    """Whether there are sessions that cannot be read."""
    if damaged:
        named = " ".join(damaged[:_MOST_NAMED])
        more = " and others" if len(damaged) > _MOST_NAMED else ""
        yield error(
            "store",
            "session-damaged",
            f"{who}, and {len(damaged)} of its sessions cannot be read: {named}{more}",
            f"`understudy repair {damaged[0]}` says what is wrong; with --write it makes the row"
            " anew from the records, and `understudy rm` deletes the session",
        )


def _ask(socket: str, path: str, seconds: float) -> Any:  # noqa: ANN401 - whatever JSON has
    """What is answered on the socket; raises OSError if nothing is, in time."""
    import httpx  # noqa: PLC0415 - late, and only if somebody listens

    try:
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=socket), base_url="http://localhost", timeout=seconds
        ) as http:
            return http.get(path).raise_for_status().json()
    except httpx.HTTPError as problem:
        raise OSError(str(problem)) from problem
