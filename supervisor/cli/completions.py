"""Completion of sessions, agents, requests, tags, settings and record kinds, for the shells.

Rule 1: fast and silent: one or two requests with a short time limit; without a daemon, or after any
        error, there are no completions.
Rule 2: what is completed depends on the metavar of a parameter, so that each command gets it.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem

from supervisor.core.validation import replace_controls

if TYPE_CHECKING:
    from supervisor.client import RemoteSupervisor
    from supervisor.core.info import Info

_SECONDS: Final = 0.7
_MAX_SESSIONS: Final = 1_000


# Returns all words with their help; those that do not fit are left out.
_Words: TypeAlias = Iterable[tuple[str, str]]
_Complete: TypeAlias = Callable[[str], _Words]


def add_completions(command: click.Command) -> None:
    """Let the parameters of a command complete what their metavar stands for."""
    for param in command.params:
        complete = _COMPLETERS.get((param.metavar or "").strip("[].?"))
        if complete is None and isinstance(param, click.Option) and param.name == "agent":
            complete = _agents
        if complete is not None:
            vars(param)["shell_complete"] = _completer(complete)  # instead of that of the class
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            add_completions(inner)


def _completer(complete: _Complete) -> Callable[[click.Context, str], list[CompletionItem]]:
    def items(_: click.Context, incomplete: str) -> list[CompletionItem]:
        try:
            with _time_limit():
                found = dict(complete(incomplete))
        except Exception:  # noqa: BLE001 - Rule 1
            return []
        return [
            CompletionItem(word, help=replace_controls(said))
            for word, said in found.items()
            # A control character would break the lines that the shell reads.
            if word.startswith(incomplete) and replace_controls(word) == word
        ]

    return items


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise `TimeoutError` in the block after the time limit, also in a blocking call."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# What the daemon knows --------------------------------------------------------------------------


def _ask_daemon(ask: Callable[[RemoteSupervisor], Awaitable[_Words]]) -> _Words:
    """Return the words that a few requests find; raise if no daemon listens."""

    async def work() -> _Words:
        from supervisor.client import connect_blocking  # noqa: PLC0415 - only for these words

        async with connect_blocking() as sup:
            return await ask(sup)

    steps: Coroutine[Any, Any, _Words] = work()
    try:
        steps.send(None)  # with this client no coroutine suspends
    except StopIteration as end:
        found: _Words = end.value
        return found
    finally:
        steps.close()
    return ()


def _sessions(incomplete: str) -> _Words:
    async def ask(sup: RemoteSupervisor) -> _Words:
        page = await sup.list(limit=_MAX_SESSIONS, archived=False)
        return [_session_word(info, incomplete) for info in reversed(page.items)]

    return _ask_daemon(ask)


def _session_word(info: Info, incomplete: str) -> tuple[str, str]:
    """Return the name of a session, or its id if it has none or an id is being typed."""
    if info.name is None or (incomplete and info.id.startswith(incomplete)):
        return info.id, f"{info.name or info.agent}, {info.badge}"
    return info.name, f"{info.agent}, {info.badge}"


def _requests(incomplete: str) -> _Words:
    async def ask(sup: RemoteSupervisor) -> _Words:
        pending = await sup.permissions()
        waiting = await sup.list(badge="waiting-for-you", limit=_MAX_SESSIONS)
        return [
            *(_session_word(info, incomplete) for info in waiting.items),
            *((one.id, one.tool) for one in pending),
        ]

    return _ask_daemon(ask)


def _agents(_: str) -> _Words:
    async def ask(sup: RemoteSupervisor) -> _Words:
        return [(one.name, one.detail or "") for one in await sup.agents() if one.installed]

    return _ask_daemon(ask)


def _tags(_: str) -> _Words:
    async def ask(sup: RemoteSupervisor) -> _Words:
        page = await sup.list(limit=_MAX_SESSIONS, archived=False)
        return [(tag, "") for info in page.items for tag in info.tags]

    return _ask_daemon(ask)


# What the code knows ----------------------------------------------------------------------------


def _settings(_: str) -> _Words:
    from supervisor.configuration import values  # noqa: PLC0415 - slow to import

    from .target import load_configuration  # noqa: PLC0415 - as above

    return [(path, str(value)) for path, value, _ in values(load_configuration(None))]


def _record_kinds(_: str) -> _Words:
    from supervisor.core.records import KINDS  # noqa: PLC0415 - only for these words

    return [(kind, "") for kind in KINDS]


_COMPLETERS: Final[dict[str, _Complete]] = {
    "ID": _sessions,
    "ID|REQUEST": _requests,
    "AGENT": _agents,
    "TAG": _tags,
    "SETTING": _settings,
    "KIND": _record_kinds,
}
