"""Installs real agents from their registries into a cache folder, one folder each.

Rule 1: an installed agent is used as it is; to update one, remove its folder.
Rule 2: what is missing (node, npm, the registry) is one sentence, which skips the agent's tests.
Rule 3: an agent that needs a newer node gets one from the registry, in a folder of its own: npm
        silently installs an old version of the agent otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from .real_agents import RealAgent

INSTALL_SECONDS: Final = 600.0
VERSION_SECONDS: Final = 60.0
NEWER_NODE: Final = 22
_NPM_WORDS: Final = ("install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
_DONE: Final = "installed"


class NotInstallable(Exception):
    """Says in one sentence why an agent cannot be installed here."""


@attrs.frozen
class Installed:
    """An installed agent: its command with a full path, and the PATH that it needs."""

    agent: RealAgent
    command: tuple[str, ...]
    path: str


def install(agent: RealAgent, cache: Path) -> Installed:
    """Return the agent, installed if it is not yet; raise `NotInstallable` if that fails."""
    folder = cache / agent.name
    path = f"{_node_folder(agent.needs_node, cache)}{os.pathsep}{os.environ.get('PATH', '')}"
    programs = _install_package(folder, agent.package, path)
    command = (str(programs / agent.command[0]), *agent.command[1:])
    return Installed(agent, command, path)


def _node_folder(needed: int, cache: Path) -> Path:
    """Return the folder of a node of at least this version."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        raise NotInstallable("node and npm are not installed")
    major = int(_run([node, "--version"], VERSION_SECONDS).lstrip("v").partition(".")[0])
    if major >= needed:
        return Path(node).parent
    # The system's npm runs on the system's node here, on the newer one when it installs an agent.
    return _install_package(cache / "node", f"node@{NEWER_NODE}", os.environ.get("PATH", ""))


def _install_package(folder: Path, package: str, path: str) -> Path:
    """Return the folder of the package's programs."""
    programs = folder / "node_modules" / ".bin"
    if not (folder / _DONE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        npm = shutil.which("npm")
        assert npm is not None
        environ = {**os.environ, "PATH": path}
        _run([npm, *_NPM_WORDS, package], INSTALL_SECONDS, cwd=folder, environ=environ)
        (folder / _DONE).touch()
    return programs


def _run(
    command: Sequence[str],
    seconds: float,
    *,
    cwd: Path | None = None,
    environ: dict[str, str] | None = None,
) -> str:
    """Return the output of a command; raise `NotInstallable` with its last line if it fails."""
    name = " ".join([Path(command[0]).name, *command[1:2]])
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"{name} took more than {seconds:g} seconds") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise NotInstallable(f"{name} failed: {lines[0] if lines else 'it said nothing'}")
    return done.stdout.strip()
