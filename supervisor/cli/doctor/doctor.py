"""`understudy doctor`: check the installation and say how to correct problems."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
import trio

from supervisor.cli.async_runner import run_async
from supervisor.cli.failures import ERROR, OK, FileNotThere
from supervisor.cli.options import config_option, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.progress_bar import progress
from supervisor.cli.target import load_configuration
from supervisor.cli.text_format import Cell, counted
from supervisor.configuration import Configuration, DaemonSettings
from supervisor.core.errors import ConfigError

from . import agents_check, daemon_check, software, storage, tools_check
from .findings import Finding

_SIGNS: Final = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("error", "red")}


@click.command()
@state_option
@config_option
@click.option(
    "--agents",
    "with_agents",
    is_flag=True,
    help="Also start each agent, and check that it gets its tools.",
)
@json_option
def doctor(*, state: str | None, config_path: str | None, with_agents: bool, as_json: bool) -> int:
    """Check the installation, the configuration and the store, and say how to correct problems.

    Exits with 0 if there are only warnings, with 1 if there are errors.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_doctor, screen, state, config_path, with_agents=with_agents))


async def _doctor(
    screen: Screen, state: str | None, config_path: str | None, *, with_agents: bool
) -> int:
    async with progress(screen, "checking"):
        store = None if state is None else Path(os.path.realpath(state))  # noqa: ASYNC240 - fast
        look = partial(_check_all, config_path, store)
        findings, configuration = await trio.to_thread.run_sync(look)
        findings += [await agents_check.check_guardian(), await agents_check.check_sessions()]
        if with_agents:
            findings.append(await tools_check.check_tool_call())
            if configuration is not None:
                findings += await tools_check.check_hand_over(configuration)
        settings = None if configuration is None else configuration.daemon
        findings += await _check_daemon_and_stores(settings, store)
    if screen.as_json:
        screen.data({"ok": not _errors(findings), "findings": findings})
    else:
        _show(screen, findings)
    return ERROR if _errors(findings) else OK


async def _check_daemon_and_stores(
    settings: DaemonSettings | None, named: Path | None
) -> list[Finding]:
    """Check the daemon, the named store, and the daemon's store if no daemon runs that does it."""
    daemon: list[Finding] = []
    own: Path | None = None
    if settings is not None:
        look = partial(daemon_check.check_daemon, settings.socket)
        daemon = await trio.to_thread.run_sync(lambda: list(look()))
        if daemon == [daemon_check.NOT_RUNNING]:
            own = storage.find_store(settings.database)
    stores = dict.fromkeys(one for one in (named, own) if one is not None)
    found = {store: await storage.check_store(store) for store in stores}
    if own is not None:
        daemon = [daemon_check.check_start(own, found[own])]
    return [*daemon, *(finding for findings in found.values() for finding in findings)]


def _check_all(
    config_path: str | None, store: Path | None
) -> tuple[list[Finding], Configuration | None]:
    """Return the findings of the checks that need no sessions, and the configuration.

    The configuration is None if it cannot be read.
    """
    findings = [
        *software.check_python(),
        *software.check_packages(),
        *software.check_package_names(),
        *software.check_sqlite(),
        *agents_check.check_configuration_files(config_path),
    ]
    try:
        configuration = load_configuration(config_path)
    except (ConfigError, FileNotThere):  # already reported by check_configuration_files
        return findings, None
    findings += [
        *agents_check.check_agents(configuration.agents, os.environ),
        *storage.check_storage(configuration.daemon, store=store),
        *software.check_clock(),
        *agents_check.check_orphans(),
    ]
    return findings, configuration


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
        screen.line("No problems found.")
    else:
        screen.line(f"{counted(count, 'error')}, {counted(warnings, 'warning')}.")


def _errors(findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.level == "error"]
