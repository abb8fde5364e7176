"""`understudy service`: the daemon as a systemd service of the user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from supervisor.cli.failures import ERROR, OK, FileNotThere
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.result_output import show_whole_fields
from supervisor.cli.text_format import Cell
from supervisor.core.errors import ConfigError

NAME: Final = "understudy.service"
_MARK: Final = "# Written by `understudy service install`."
_SECONDS: Final = 60.0
_OWNER_ONLY: Final = 0o600
_COMMANDS: Final = (
    "systemctl --user enable --now understudy",
    "loginctl enable-linger    # keep it running while you are logged out",
)

# TimeoutStopSec: more than settings.exit_seconds and a whole ladder.
_UNIT: Final = """{mark}
[Unit]
Description=Understudy: agent sessions, supervised

[Service]
Type=notify
ExecStart={command} serve
ExecReload=/bin/kill -HUP $MAINPID
Environment={path}
WatchdogSec=60
Restart=on-failure
RestartPreventExitStatus=2
SuccessExitStatus=6
TimeoutStopSec=60
KillMode=mixed

[Install]
WantedBy=default.target
"""


def unit_text(environ: Mapping[str, str], *, program: Path) -> str:
    """Return the unit for the Python `program`; raise `ConfigError` if systemd cannot express it.

    The PATH is that of the caller, so that the same agents are found.
    """
    script = program.with_name("understudy")
    words = [str(script)] if script.exists() else [str(program), "-P", "-m", "supervisor.cli"]
    # In Environment= a dollar sign is an ordinary character, in ExecStart= it is not.
    command = " ".join(_quoted(word).replace("$", "$$") for word in words)
    path = _quoted(f"PATH={environ.get('PATH', os.defpath)}")
    return _UNIT.format(mark=_MARK, command=command, path=path)


def _quoted(text: str) -> str:
    if not text.isprintable():
        raise ConfigError(
            f"a unit cannot contain {text!a}", hint="use a path without control characters"
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != text or " " in text or "=" in text else text


def unit_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the unit."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if folder.startswith("/") else Path.home() / ".config"
    return base / "systemd" / "user" / NAME


@click.group(invoke_without_command=True, subcommand_metavar="[install|uninstall|status]")
@json_option
@click.pass_context
def service(ctx: click.Context, *, as_json: bool) -> int:
    """Show the state of the systemd unit that runs the daemon for you; install or remove it."""
    if ctx.invoked_subcommand is None:
        return _show_state(Screen(as_json=as_json))
    if as_json:
        raise click.UsageError(f"Write options after {ctx.invoked_subcommand}.")
    return OK


@service.command("install", short_help="Write the unit.")
@click.option("--force", is_flag=True, help="Replace a unit that you have changed.")
@json_option
def install(*, force: bool, as_json: bool) -> int:
    """Write the unit and print the commands that enable it.

    The unit has the PATH of this shell, so that the daemon finds the same agents.
    """
    screen = Screen(as_json=as_json)
    path = unit_path(os.environ)
    text = unit_text(os.environ, program=Path(sys.executable))
    _refuse_changed(path, force=force)
    _write(path, text)
    reloaded = _systemctl(screen, "daemon-reload")
    if screen.as_json:
        screen.data({"path": str(path), "reloaded": reloaded, "commands": list(_COMMANDS)})
        return OK
    screen.line(f"Written: {path}")
    if reloaded is None:
        screen.note("systemctl is not installed; on a machine with systemd:")
    screen.note("Enable it with:")
    for command in _COMMANDS:
        screen.line(Cell(f"  {command}", "bold"))
    screen.note("A daemon that runs already must end first: `understudy down`.")
    return OK


@service.command("uninstall", short_help="Stop the service and remove the unit.")
@json_option
def uninstall(*, as_json: bool) -> int:
    """Stop and disable the service, and remove the unit; sessions and settings stay."""
    screen = Screen(as_json=as_json)
    path = unit_path(os.environ)
    if not path.exists():
        raise FileNotThere(f"no unit at {path}", hint="there is nothing to remove")
    stopped = _systemctl(screen, "disable", "--now", NAME)
    path.unlink()
    _systemctl(screen, "daemon-reload")
    if screen.as_json:
        screen.data({"path": str(path), "removed": True, "stopped": stopped})
    else:
        screen.line(f"Removed: {path}")
    return OK


@service.command("status", short_help="Show whether the unit is installed and active.")
@json_option
def status_of_unit(*, as_json: bool) -> int:
    """Show whether the unit is installed, enabled and active; exit with 1 if it is not active."""
    return _show_state(Screen(as_json=as_json))


def _show_state(screen: Screen) -> int:
    path = unit_path(os.environ)
    enabled, active = _answer("is-enabled"), _answer("is-active")
    if screen.as_json:
        screen.data(
            {
                "path": str(path),
                "installed": path.exists(),
                "enabled": enabled,
                "active": active,
            }
        )
    else:
        installed = path.exists()
        show_whole_fields(
            screen,
            [
                ("unit", str(path) if installed else Cell("not installed", "yellow")),
                ("enabled", enabled or "unknown: no systemctl here"),
                ("active", active or "unknown: no systemctl here"),
            ],
        )
    return OK if active == "active" else ERROR


def _refuse_changed(path: Path, *, force: bool) -> None:
    try:
        present = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", hint="check its mode") from None
    if not present.startswith(_MARK) and not force:
        raise ConfigError(
            f"{path} exists and was not written by this command",
            hint="compare it, then replace it with --force",
        )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(_OWNER_ONLY)
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", hint="check the mode of its folder"
        ) from error


def _systemctl(screen: Screen, *arguments: str) -> bool | None:
    """Run `systemctl --user`; return whether it succeeded, None without systemctl."""
    done = _run(*arguments)
    if done is None:
        return None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        detail = said[-1] if said else f"exit code {done.returncode}"
        screen.warn(f"systemctl --user {' '.join(arguments)}: {detail}")
    return done.returncode == 0


def _answer(question: str) -> str | None:
    """Return the word that systemctl answers; None without systemctl."""
    done = _run(question, NAME)
    return None if done is None else done.stdout.strip() or "unknown"


def _run(*arguments: str) -> subprocess.CompletedProcess[str] | None:
    program = shutil.which("systemctl")
    if program is None:
        return None
    return subprocess.run(  # noqa: S603 - systemctl, with words of ours
        [program, "--user", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        stdin=subprocess.DEVNULL,
    )
