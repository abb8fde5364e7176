"""Backups over a connection: written by the caller, complete or not at all."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import trio

import supervisor
from supervisor import ConfigError
from supervisor.client import AnswerLost, backup_copy, connect, connect_once
from tests.support.served_supervisor import Connect, opened, served

WAYS = pytest.mark.parametrize("connect", [connect, connect_once])


def left_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()} if folder.exists() else set()


@WAYS
async def test_a_copy_is_private_complete_and_leaves_nothing_at_the_daemon(
    folder: Path, connect: Connect
) -> None:
    with trio.fail_after(20):
        async with supervisor.open(folder / "state.db") as sup:
            session = await sup.create("echo")
            async with served(sup, folder / "s") as path, connect(path) as remote:
                size = await remote.backup(folder / "copy.db")
        async with supervisor.open(folder / "copy.db") as copy:
            assert await copy.exists(session.id)

    found = (folder / "copy.db").stat()
    assert (size, stat.S_IMODE(found.st_mode)) == (found.st_size, 0o600)
    assert left_in(folder / "backups") == set()


@pytest.mark.parametrize("name", ["there.db", "other.db-wal", "none/copy.db"])
async def test_a_wrong_place_is_refused_before_the_daemon_is_asked(folder: Path, name: str) -> None:
    (folder / "there.db").write_text("precious")

    async with opened("remote", folder) as sup:
        with pytest.raises(ConfigError):
            await sup.backup(folder / name)

        assert (folder / "there.db").read_text() == "precious"
        assert not (folder / "backups").exists()


async def test_a_broken_download_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def half(stream: Any, draft: Path) -> int:  # noqa: ANN401
        return await trio.to_thread.run_sync(draft.write_bytes, await stream.receive() or b"") - 1

    monkeypatch.setattr(backup_copy, "_download", half)
    (folder / "copies").mkdir()

    async with opened("remote", folder) as sup:
        with pytest.raises(AnswerLost):
            await sup.backup(folder / "copies" / "copy.db")

    assert left_in(folder / "copies") == left_in(folder / "backups") == set()


async def test_a_cancelled_copy_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "copies").mkdir()
    async with opened("remote", folder) as sup:
        with trio.CancelScope() as scope:

            async def stuck(*_: object) -> int:
                scope.cancel()
                await trio.sleep_forever()
                raise AssertionError

            monkeypatch.setattr(backup_copy, "_download", stuck)
            await sup.backup(folder / "copies" / "copy.db")

    assert scope.cancelled_caught
    assert left_in(folder / "copies") == left_in(folder / "backups") == set()
