"""Birth times tell a folder from a later one that has its inode."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.drivers import birth_time
from supervisor.drivers.birth_time import birth_time_ns
from supervisor.drivers.workspaces import find_root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    if find_root(str(made)).born_ns is None:
        pytest.skip("this file system has no birth times")
    return made


def make_again(folder: Path, before: WorkspaceRoot) -> WorkspaceRoot:
    """Replace the folder until the clock of the kernel, which has ticks, has moved on."""
    while True:
        folder.rmdir()
        folder.mkdir()
        found = find_root(str(folder))
        if found.born_ns != before.born_ns:
            return found


def test_a_folder_made_again_does_not_agree_with_its_pin(folder: Path) -> None:
    pinned = find_root(str(folder))

    assert not pinned.agrees_with(make_again(folder, pinned))


def test_changes_inside_a_folder_do_not_change_its_birth_time(folder: Path) -> None:
    pinned = find_root(str(folder))

    (folder / "new").mkdir()
    folder.chmod(0o700)
    os.utime(folder, (1, 1))

    assert find_root(str(folder)) == pinned


def test_the_birth_time_of_another_inode_is_not_taken(folder: Path) -> None:
    inode = folder.stat().st_ino

    assert birth_time_ns(str(folder), inode) is not None
    assert birth_time_ns(str(folder), inode + 1) is None
    assert birth_time_ns(str(folder / "missing"), inode) is None


def test_a_system_without_birth_times_compares_device_and_inode(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = find_root(str(folder))
    monkeypatch.setattr(birth_time, "_find_statx", lambda: None)

    found = find_root(str(folder))

    assert found.born_ns is None
    assert pinned.agrees_with(found)
