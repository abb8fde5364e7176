"""`understudy doctor`: whether everything is in order here, and what to do if not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
import trio

from supervisor.cli.ground.failures import ERROR, OK
from supervisor.cli.ground.options import config_option, json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.settings import load_configuration
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.screen import Screen
from supervisor.core.errors import ConfigError

from .health import daemon, places, processes, software, working
from .health.finding import Finding

_SIGNS: Final = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("error", "red")}


@click.command()
@state_option
@config_option
@json_option
def doctor(*, state: str | None, config_path: str | None, as_json: bool) -> int:
    """Look whether everything is in order here, and say what to do if something is not.

    Exits with 0 if there are only warnings, with 1 if there are errors.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_doctor, screen, state, config_path))


async def _doctor(screen: Screen, state: str | None, config_path: str | None) -> int:
    async with progress(screen, "looking around"):
        store = None if state is None else Path(os.path.realpath(state))  # noqa: ASYNC240 - at once
        look = partial(_look, config_path, store)
        findings = await trio.to_thread.run_sync(look)
        findings += [await processes.look_at_guardian(), await working.look_at_sessions()]
        if store is not None:
            findings += await working.look_into_store(store)
    if screen.as_json:
        screen.data({"ok": not _errors(findings), "findings": findings})
    else:
        _show(screen, findings)
    return ERROR if _errors(findings) else OK


def _look(config_path: str | None, store: Path | None) -> list[Finding]:
    """All that needs no sessions."""
    findings = [
        *software.look_at_python(),
        *software.look_at_packages(),
        *software.look_at_names(),
        *software.look_at_sqlite(),
        *working.look_at_configuration(config_path),
    ]
    try:
        configuration = load_configuration(config_path)
    except ConfigError:  # which was just said
        return findings
    return [
        *findings,
        *working.look_at_agents(configuration.agents, os.environ),
        *places.look_at_places(configuration.daemon, store=store),
        *working.look_at_clock(),
        *processes.look_at_leftovers(),
        *daemon.look_at_daemon(configuration.daemon.socket),
    ]


def _show(screen: Screen, findings: Sequence[Finding]) -> None:
    for finding in findings:
        sign, style = _SIGNS[finding.level]
        name = f"{finding.code or finding.check}: "
        screen.line(Cell(f"{sign:<8}", style), Cell(name, "bold"), finding.detail)
        if finding.hint is not None:
            screen.line("        ", Cell("hint: ", "cyan"), finding.hint)
    count = len(_errors(findings))
    warnings = sum(one.level == "warning" for one in findings)
    if not count and not warnings:
        screen.line("All is well.")
    else:
        screen.line(f"{_counted(count, 'error')}, {_counted(warnings, 'warning')}.")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _errors(findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.level == "error"]
