"""Presets in the daemon: used by their names once they are installed, started only by a session."""

import json
import sys
from collections.abc import Iterator

import pytest

import supervisor
from supervisor.core.agent_list import ListedAgent
from tests.support.daemon_in_process import Home, Running, running, temporary_home


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with temporary_home("") as made:
        # Agents are started with the PATH of this process.
        monkeypatch.setenv("PATH", f"{made.folder / 'bin'}:/usr/bin:/bin")
        yield made


def install(home: Home, name: str) -> None:
    """Put a program that speaks ACP on the PATH, as npm does it: a link into a package."""
    package = home.folder / "lib" / "node_modules" / name
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": "4.5.6"}))
    program = package / "main"
    started = home.folder / "started"
    program.write_text(
        f"#!/bin/sh\necho {name} >> {started}\n"
        f"exec {sys.executable} -P -m supervisor.drivers.scripted\n"
    )
    program.chmod(0o755)
    (home.folder / "bin").mkdir(exist_ok=True)
    (home.folder / "bin" / name).symlink_to(program)


async def listed(daemon: Running, name: str) -> ListedAgent:
    (found,) = [one for one in await daemon.remote.agents() if one.name == name]
    return found


async def test_an_installed_preset_is_used_without_configuration(home: Home) -> None:
    install(home, "gemini")
    path = {"PATH": str(home.folder / "bin")}
    async with running(home, environ=path) as daemon:
        before = await listed(daemon, "gemini")
        assert not (home.folder / "started").exists()
        session = await daemon.remote.create("gemini", workspace=str(home.folder))
        result = await session.prompt("say hello")
        after = await listed(daemon, "gemini")

    assert (before.source, before.installed, before.version) == ("preset", True, "4.5.6")
    assert before.capabilities is None
    assert result.text.strip() == "hello"
    assert (after.version, after.capabilities is not None) == ("1", True)


async def test_a_preset_that_is_installed_later_is_found_when_it_is_used(home: Home) -> None:
    path = {"PATH": str(home.folder / "bin")}
    async with running(home, environ=path) as daemon:
        with pytest.raises(supervisor.AgentUnknown, match="codex is not installed") as refusal:
            await daemon.remote.create("codex", workspace=str(home.folder))
        assert "npm install -g @agentclientprotocol/codex-acp" in str(refusal.value.hint)
        assert "npm install" in ((await listed(daemon, "codex")).missing or "")

        install(home, "codex-acp")
        session = await daemon.remote.create("codex", workspace=str(home.folder))

        assert (await session.info()).badge == "idle"
        assert (await daemon.remote.reload()).added == ()


async def test_a_session_of_a_preset_continues_after_a_restart(home: Home) -> None:
    install(home, "gemini")
    path = {"PATH": str(home.folder / "bin")}
    async with running(home, environ=path) as daemon:
        made = await daemon.remote.create("gemini", workspace=str(home.folder))
    async with running(home, environ=path) as daemon:
        result = await daemon.remote.session(made.id).prompt("say again")

    assert result.text.strip() == "again"
