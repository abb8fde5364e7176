"""Files that an agent reads and writes in its workspace; see acp/file_access.py."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.testing import VirtualClock
from supervisor.core.permissions import Permissions
from supervisor.drivers.acp import file_access as module
from supervisor.drivers.acp.file_access import FileAccess
from supervisor.drivers.acp.permissions import Grants
from supervisor.drivers.acp.tool_reports import ToolReport
from supervisor.drivers.acp.workspace import NotRegularFile, Workspace, write_file
from supervisor.drivers.workspaces import find_root
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, RESOURCE_NOT_FOUND
from tests.support.acp_decider import FakeUser, refusal
from tests.support.driver_context import FakeDriverContext

pytestmark = pytest.mark.usefixtures("no_open_descriptors")

ALL = Permissions(mode="approve_all")


@pytest.fixture
def files(
    context: FakeDriverContext, user: FakeUser, grants: Grants, limiter: trio.CapacityLimiter
) -> FileAccess:
    return FileAccess(context, ask=user.ask, grants=grants, limiter=limiter)


def at(path: Path, **more: object) -> dict[str, Any]:
    return {"sessionId": "s", "path": str(path), **more}


async def read(files: FileAccess, path: Path, **more: object) -> object:
    return (await files.read(at(path, **more)))["content"]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Make the folder read-only during the block."""
    folder.chmod(0o555)
    try:
        yield
    finally:
        folder.chmod(0o755)


# Reading ----------------------------------------------------------------------------------


async def test_a_file_is_read(files: FileAccess, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes("one\r\nzwölf\n".encode())

    assert await read(files, workspace / "a.txt") == "one\r\nzwölf\n"


@pytest.mark.parametrize(
    ("line", "limit", "found"),
    [
        (None, None, "1\n2\n3"),
        (2, None, "2\n3"),
        (None, 2, "1\n2\n"),
        (2, 1, "2\n"),
        (3, 10, "3"),
        (4, None, ""),
        (0, 1, "1\n"),
        (1, 0, ""),
        (10**12, 10**12, ""),
    ],
)
async def test_lines_are_read_from_a_given_line(
    files: FileAccess, workspace: Path, line: int | None, limit: int | None, found: str
) -> None:
    (workspace / "a").write_text("1\n2\n3")

    assert await read(files, workspace / "a", line=line, limit=limit) == found


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.text("ab\né", max_size=5), max_size=6), st.integers(1, 8), st.integers(0, 8))
def test_returned_lines_match_the_file(
    files: FileAccess, workspace: Path, parts: list[str], line: int, limit: int
) -> None:
    text = "".join(parts)
    (workspace / "a").write_text(text)

    async def main() -> object:
        return await read(files, workspace / "a", line=line, limit=limit)

    found = trio.run(main, clock=VirtualClock())

    assert found == "".join(text.splitlines(keepends=True)[line - 1 :][:limit])


async def test_invalid_bytes_are_replaced(files: FileAccess, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"a\xff\0b")

    assert await read(files, workspace / "a") == "a\ufffd\0b"


async def test_a_link_inside_the_workspace_is_followed(files: FileAccess, workspace: Path) -> None:
    (workspace / "a").write_text("hi")
    (workspace / "b").symlink_to("a")

    assert await read(files, workspace / "b") == "hi"


async def test_a_missing_file_is_not_found(files: FileAccess, workspace: Path) -> None:
    error = await refusal(files.read(at(workspace / "a")))

    assert error.code == RESOURCE_NOT_FOUND
    assert error.message == f"{workspace}/a does not exist"


async def test_a_path_outside_the_workspace_is_refused(
    files: FileAccess, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("key")
    (workspace / "link").symlink_to(tmp_path / "secret")

    for path in (tmp_path / "secret", workspace / "link", workspace / ".." / "secret"):
        error = await refusal(files.read(at(path)))
        assert (error.code, "key" in error.message) == (INVALID_PARAMS, False)


async def test_reading_a_special_file_is_refused_at_once(
    files: FileAccess, workspace: Path
) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "folder").mkdir()
    (workspace / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace / "socket"))

        for name in ("pipe", "folder", "socket", "loop", "."):
            error = await refusal(files.read(at(workspace / name)))
            assert error.message.endswith("is not a regular file"), name


async def test_a_large_file_can_be_read_in_parts(
    files: FileAccess, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_READ_BYTES", 10)
    (workspace / "a").write_text("123456\n" * 3)

    error = await refusal(files.read(at(workspace / "a")))

    assert error.message.endswith("is too large: read it in parts, with line and limit")
    assert await read(files, workspace / "a", line=3, limit=1) == "123456\n"


async def test_a_line_behind_too_many_bytes_is_refused(
    files: FileAccess, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SKIPPED_BYTES", 10)
    (workspace / "a").write_text("1234567890" * 3 + "\nlast")

    assert "too large" in (await refusal(files.read(at(workspace / "a", line=2)))).message


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"path": None},
        {"path": "a.txt"},
        {"path": ["/a"]},
        {"path": "/a\0"},
        {"path": "/a", "line": -1},
        {"path": "/a", "line": "1"},
        {"path": "/a", "limit": 1.5},
        {"path": "/" + "x/" * 5000},
    ],
)
async def test_a_malformed_request_is_refused(files: FileAccess, params: object) -> None:
    assert (await refusal(files.read(params))).code == INVALID_PARAMS
    assert (await refusal(files.write(params))).code == INVALID_PARAMS


# Writing ----------------------------------------------------------------------------------


@pytest.fixture
def may_write(context: FakeDriverContext) -> None:
    context.permissions = ALL


@pytest.mark.usefixtures("may_write")
async def test_a_file_is_written(files: FileAccess, workspace: Path) -> None:
    answer = await files.write(at(workspace / "a", content="zwölf\r\n"))

    assert answer == {}
    assert (workspace / "a").read_bytes() == "zwölf\r\n".encode()


@pytest.mark.usefixtures("may_write")
async def test_missing_folders_are_created(files: FileAccess, workspace: Path) -> None:
    await files.write(at(workspace / "new" / "deep" / "a", content="x"))

    assert (workspace / "new" / "deep" / "a").read_text() == "x"


@pytest.mark.usefixtures("may_write")
async def test_a_rewritten_file_keeps_its_mode(files: FileAccess, workspace: Path) -> None:
    script = workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o751)

    await files.write(at(script, content="new"))

    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("new", 0o751)


@pytest.mark.usefixtures("may_write")
async def test_a_write_leaves_no_temporary_file(files: FileAccess, workspace: Path) -> None:
    await files.write(at(workspace / "a", content="1"))
    await files.write(at(workspace / "a", content="2"))

    assert names_in(workspace) == ["a"]


@pytest.mark.usefixtures("may_write")
async def test_a_file_with_two_links_keeps_both(files: FileAccess, workspace: Path) -> None:
    (workspace / "a").write_text("a longer one")
    (workspace / "b").hardlink_to(workspace / "a")

    await files.write(at(workspace / "a", content="new"))

    assert (workspace / "b").read_text() == "new"


@pytest.mark.usefixtures("may_write")
async def test_a_write_follows_a_link_inside_the_workspace(
    files: FileAccess, workspace: Path
) -> None:
    (workspace / "a").write_text("old")
    (workspace / "link").symlink_to("a")

    await files.write(at(workspace / "link", content="new"))

    assert (workspace / "link").is_symlink()
    assert (workspace / "a").read_text() == "new"


@pytest.mark.usefixtures("may_write")
async def test_a_write_outside_the_workspace_is_refused(
    files: FileAccess, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "out").symlink_to(tmp_path)

    for path in (tmp_path / "a", workspace / "out" / "a", workspace / ".." / "a"):
        assert (await refusal(files.write(at(path, content="x")))).code == INVALID_PARAMS

    assert names_in(tmp_path) == ["workspace"]


@pytest.mark.usefixtures("may_write")
async def test_writing_a_special_file_is_refused(files: FileAccess, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "folder").mkdir()
    (workspace / "file").write_text("x")

    for name in ("pipe", "folder", ".", "file/a"):
        error = await refusal(files.write(at(workspace / name, content="x")))
        assert error.message.endswith("is not a regular file"), name


@pytest.mark.usefixtures("may_write")
@pytest.mark.skipif(os.geteuid() == 0, reason="to root nothing is read-only")
async def test_a_read_only_file_is_unchanged(files: FileAccess, workspace: Path) -> None:
    (workspace / "a").write_text("old")
    (workspace / "a").chmod(0o444)

    error = await refusal(files.write(at(workspace / "a", content="new")))

    assert error.message == f"permission denied by the system for {workspace}/a"
    assert (workspace / "a").read_text() == "old"


@pytest.mark.usefixtures("may_write")
@pytest.mark.skipif(os.geteuid() == 0, reason="to root no folder is closed")
async def test_a_file_in_a_read_only_folder_is_overwritten(
    files: FileAccess, workspace: Path
) -> None:
    (workspace / "a").write_text("old")
    with closed(workspace):
        await files.write(at(workspace / "a", content="new"))

    assert (workspace / "a").read_text() == "new"


def test_a_link_created_after_the_check_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    (workspace / "folder").mkdir()
    (tmp_path / "outside").mkdir()
    inside = Workspace(str(workspace)).resolve(f"{workspace}/folder/a")
    file = Workspace(str(workspace)).resolve(f"{workspace}/b")

    (workspace / "folder").rmdir()
    (workspace / "folder").symlink_to(tmp_path / "outside")
    (workspace / "b").symlink_to(tmp_path / "outside" / "b")

    with pytest.raises(NotADirectoryError):
        write_file(inside, b"x")
    with pytest.raises(NotRegularFile):
        write_file(file, b"x")
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_failed_write_leaves_the_file_unchanged(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "a").write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "replace", full)

    with pytest.raises(OSError, match="no space"):
        write_file(Workspace(str(workspace)).resolve(f"{workspace}/a"), b"new")
    assert {path.name: path.read_text() for path in workspace.iterdir()} == {"a": "old"}


@pytest.mark.usefixtures("may_write")
@pytest.mark.parametrize("content", [None, 5, ["x"], "half \ud800", "x" * 10_500_000])
async def test_invalid_or_too_large_content_is_not_written(
    files: FileAccess, workspace: Path, content: object
) -> None:
    error = await refusal(files.write(at(workspace / "a", content=content)))

    assert (error.code, (workspace / "a").exists()) == (INVALID_PARAMS, False)


# Permissions ------------------------------------------------------------------------------


async def test_reading_in_the_workspace_asks_no_permission(
    files: FileAccess, workspace: Path, user: FakeUser
) -> None:
    (workspace / "a").write_text("hi")

    await read(files, workspace / "a")

    assert user.asked == []


async def test_writing_asks_for_permission(
    files: FileAccess, workspace: Path, user: FakeUser
) -> None:
    error = await refusal(files.write(at(workspace / "a", content="x")))

    [question] = user.asked
    assert (question.kind, question.inside_workspace) == ("edit", True)
    assert question.question == f"Write {workspace}/a"
    assert question.input == {"path": f"{workspace}/a"}
    assert error.message == "this session is not allowed to edit"
    assert not (workspace / "a").exists()


async def test_an_allowed_write_is_done(files: FileAccess, workspace: Path, user: FakeUser) -> None:
    user.answer = "allow_once"

    await files.write(at(workspace / "a", content="x"))

    assert (workspace / "a").read_text() == "x"


async def test_a_granted_write_asks_no_permission(
    files: FileAccess, workspace: Path, user: FakeUser, grants: Grants
) -> None:
    (workspace / "link").symlink_to("a")
    grants.add(ToolReport(kind="edit"), "allow_once", paths=[f"{workspace}/a"])

    await files.write(at(workspace / "link", content="x"))

    assert user.asked == []
    await refusal(files.write(at(workspace / "b", content="x")))
    assert len(user.asked) == 1


async def test_a_write_cancelled_while_asking_is_not_done(
    files: FileAccess, workspace: Path, user: FakeUser
) -> None:
    user.decides = trio.Event()

    with trio.move_on_after(60):
        await files.write(at(workspace / "a", content="x"))

    assert not (workspace / "a").exists()


@pytest.mark.parametrize(
    "permissions",
    [
        Permissions(mode="deny_all"),
        Permissions(tools=[]),
        Permissions(tools=["bash"]),
        Permissions(workspace_paths=[]),
        Permissions(workspace_paths=["other"]),
    ],
)
async def test_a_session_without_permission_neither_reads_nor_writes(
    context: FakeDriverContext,
    files: FileAccess,
    workspace: Path,
    user: FakeUser,
    permissions: Permissions,
) -> None:
    (workspace / "a").write_text("old")
    context.permissions = permissions

    await refusal(files.read(at(workspace / "a")))
    await refusal(files.write(at(workspace / "a", content="new")))

    assert (user.asked, (workspace / "a").read_text()) == ([], "old")


async def test_without_a_workspace_there_are_no_files(
    context: FakeDriverContext, files: FileAccess, workspace: Path
) -> None:
    context.workspace = None

    assert (await refusal(files.read(at(workspace)))).message == "the session has no workspace"


async def test_permitted_tools_may_list_a_kind(
    context: FakeDriverContext, files: FileAccess, workspace: Path, user: FakeUser
) -> None:
    context.permissions = Permissions(tools=["edit"])
    user.answer = "allow_always"

    await files.write(at(workspace / "a", content="x"))

    assert [question.tool for question in user.asked] == ["edit"]


async def test_a_slow_disk_delays_only_its_own_agent(
    files: FileAccess, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = trio.Event()

    def slow(*_: object, **__: object) -> bytes:
        trio.from_thread.run(release.wait)
        return b"late"

    monkeypatch.setattr(module, "read_lines", slow)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.read, at(workspace / "a"))
        await trio.to_thread.run_sync(lambda: None)  # threads of other agents are free
        release.set()


# A workspace that is moved ---------------------------------------------------------------------


def replace_by_a_link(workspace: Path) -> None:
    moved = workspace.rename(workspace.with_name("moved"))
    elsewhere = moved.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("secret")
    workspace.symlink_to(elsewhere)


async def test_a_folder_that_replaces_the_workspace_is_not_served(
    context: FakeDriverContext, limiter: trio.CapacityLimiter, workspace: Path
) -> None:
    workspace_root = find_root(str(workspace))
    files = FileAccess(
        context, ask=FakeUser().ask, grants=Grants(), limiter=limiter, workspace_root=workspace_root
    )

    replace_by_a_link(workspace)

    assert (await refusal(read(files, workspace / "secret"))).code == INVALID_PARAMS
