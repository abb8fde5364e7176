"""Commands that open the store themselves use the store of the daemon that others address."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor import ConfigError
from supervisor.cli.daemon_store import find_daemon_store
from supervisor.configuration import DaemonSettings
from supervisor.http_server.unix_listener import unix_listener
from supervisor.store.sqlite.lock import locked
from tests.support.cli_runner import Caller


@pytest.fixture
def settings(tmp_path: Path) -> DaemonSettings:
    return DaemonSettings(socket=str(tmp_path / "s"), state_folder=str(tmp_path))


def test_without_a_daemon_it_is_the_configured_store(settings: DaemonSettings) -> None:
    assert find_daemon_store(settings) == settings.database


def test_it_is_the_store_that_the_daemon_holds(settings: DaemonSettings) -> None:
    with unix_listener(Path(settings.socket)), locked(Path(settings.database)):
        assert find_daemon_store(settings) == settings.database


def test_the_store_of_another_daemon_is_refused(settings: DaemonSettings) -> None:
    with (
        unix_listener(Path(settings.socket)),
        pytest.raises(ConfigError, match="does not use the store") as refusal,
    ):
        find_daemon_store(settings)

    assert "UNDERSTUDY_DAEMON__STATE_FOLDER" in refusal.value.hint


@pytest.mark.parametrize("command", [("query", "SELECT 1"), ("restore", "backup.db")])
def test_commands_refuse_another_store_than_that_of_the_daemon(
    call: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str]
) -> None:
    monkeypatch.setenv("UNDERSTUDY_DAEMON__SOCKET", str(tmp_path / "s"))
    with unix_listener(tmp_path / "s"):
        done = call(*command)

    assert done.code == 1
    assert "does not use the store" in done.err
