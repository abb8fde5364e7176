"""An agent reads and writes through us: its workspace, nothing else; see acp/services/files.py."""

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
from supervisor.drivers.acp.news.tools import ToolFacts
from supervisor.drivers.acp.rpc.messages import INVALID_PARAMS, RESOURCE_NOT_FOUND
from supervisor.drivers.acp.services import files as module
from supervisor.drivers.acp.services.files import Files
from supervisor.drivers.acp.services.grants import Grants
from supervisor.drivers.acp.services.ground import Ground, Pin
from supervisor.drivers.acp.services.opening import NotOrdinary, write
from tests.drivers.acp.services.people import Person, refusal
from tests.drivers.office import StandInOffice

ALL = Permissions(mode="approve_all")


@pytest.fixture
def files(
    office: StandInOffice, person: Person, grants: Grants, limiter: trio.CapacityLimiter
) -> Files:
    return Files(office, ask=person.ask, grants=grants, limiter=limiter)


def at(path: Path, **more: object) -> dict[str, Any]:
    return {"sessionId": "s", "path": str(path), **more}


async def read(files: Files, path: Path, **more: object) -> object:
    return (await files.read(at(path, **more)))["content"]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """In which nothing can be made meanwhile."""
    folder.chmod(0o555)
    try:
        yield
    finally:
        folder.chmod(0o755)


# Reading ----------------------------------------------------------------------------------


async def test_a_file_is_read(files: Files, workspace: Path) -> None:
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
async def test_lines_are_read_from_a_place_on(
    files: Files, workspace: Path, line: int | None, limit: int | None, found: str
) -> None:
    (workspace / "a").write_text("1\n2\n3")

    assert await read(files, workspace / "a", line=line, limit=limit) == found


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("ab\né", max_size=5), max_size=6), st.integers(1, 8), st.integers(0, 8))
def test_lines_are_those_of_the_file(
    files: Files, workspace: Path, parts: list[str], line: int, limit: int
) -> None:
    text = "".join(parts)
    (workspace / "a").write_text(text)

    async def main() -> object:
        return await read(files, workspace / "a", line=line, limit=limit)

    found = trio.run(main, clock=VirtualClock())

    assert found == "".join(text.splitlines(keepends=True)[line - 1 :][:limit])


async def test_bytes_that_are_no_text_are_marked(files: Files, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"a\xff\0b")

    assert await read(files, workspace / "a") == "a\ufffd\0b"


async def test_a_link_inside_may_be_followed(files: Files, workspace: Path) -> None:
    (workspace / "a").write_text("hi")
    (workspace / "b").symlink_to("a")

    assert await read(files, workspace / "b") == "hi"


async def test_a_file_that_is_not_there_is_not_found(files: Files, workspace: Path) -> None:
    error = await refusal(files.read(at(workspace / "a")))

    assert error.code == RESOURCE_NOT_FOUND
    assert error.message == f"there is no {workspace}/a"


async def test_a_path_outside_is_refused(files: Files, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (workspace / "link").symlink_to(tmp_path / "secret")

    for path in (tmp_path / "secret", workspace / "link", workspace / ".." / "secret"):
        error = await refusal(files.read(at(path)))
        assert (error.code, "key" in error.message) == (INVALID_PARAMS, False)


async def test_what_is_no_ordinary_file_is_refused_at_once(files: Files, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "folder").mkdir()
    (workspace / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace / "socket"))

        for name in ("pipe", "folder", "socket", "loop", "."):
            error = await refusal(files.read(at(workspace / name)))
            assert error.message.endswith("is no ordinary file"), name


async def test_a_file_that_is_too_large_can_be_read_in_parts(
    files: Files, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_READ_BYTES", 10)
    (workspace / "a").write_text("123456\n" * 3)

    error = await refusal(files.read(at(workspace / "a")))

    assert error.message.endswith("is too large: read it in parts, with line and limit")
    assert await read(files, workspace / "a", line=3, limit=1) == "123456\n"


async def test_a_line_that_lies_too_far_back_is_not_looked_for(
    files: Files, workspace: Path, monkeypatch: pytest.MonkeyPatch
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
async def test_a_request_that_makes_no_sense_is_refused(files: Files, params: object) -> None:
    assert (await refusal(files.read(params))).code == INVALID_PARAMS
    assert (await refusal(files.write(params))).code == INVALID_PARAMS


# Writing ----------------------------------------------------------------------------------


@pytest.fixture
def may_write(office: StandInOffice) -> None:
    office.permissions = ALL


@pytest.mark.usefixtures("may_write")
async def test_a_file_is_written(files: Files, workspace: Path) -> None:
    answer = await files.write(at(workspace / "a", content="zwölf\r\n"))

    assert answer == {}
    assert (workspace / "a").read_bytes() == "zwölf\r\n".encode()


@pytest.mark.usefixtures("may_write")
async def test_folders_that_are_not_there_are_made(files: Files, workspace: Path) -> None:
    await files.write(at(workspace / "new" / "deep" / "a", content="x"))

    assert (workspace / "new" / "deep" / "a").read_text() == "x"


@pytest.mark.usefixtures("may_write")
async def test_a_file_that_is_written_again_keeps_its_mode(files: Files, workspace: Path) -> None:
    script = workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o751)

    await files.write(at(script, content="new"))

    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("new", 0o751)


@pytest.mark.usefixtures("may_write")
async def test_nothing_else_is_left_in_the_folder(files: Files, workspace: Path) -> None:
    await files.write(at(workspace / "a", content="1"))
    await files.write(at(workspace / "a", content="2"))

    assert names_in(workspace) == ["a"]


@pytest.mark.usefixtures("may_write")
async def test_a_file_with_two_names_keeps_both(files: Files, workspace: Path) -> None:
    (workspace / "a").write_text("a longer one")
    (workspace / "b").hardlink_to(workspace / "a")

    await files.write(at(workspace / "a", content="new"))

    assert (workspace / "b").read_text() == "new"


@pytest.mark.usefixtures("may_write")
async def test_a_link_is_written_through(files: Files, workspace: Path) -> None:
    (workspace / "a").write_text("old")
    (workspace / "link").symlink_to("a")

    await files.write(at(workspace / "link", content="new"))

    assert (workspace / "link").is_symlink()
    assert (workspace / "a").read_text() == "new"


@pytest.mark.usefixtures("may_write")
async def test_nothing_outside_is_written(files: Files, workspace: Path, tmp_path: Path) -> None:
    (workspace / "out").symlink_to(tmp_path)

    for path in (tmp_path / "a", workspace / "out" / "a", workspace / ".." / "a"):
        assert (await refusal(files.write(at(path, content="x")))).code == INVALID_PARAMS

    assert names_in(tmp_path) == ["workspace"]


@pytest.mark.usefixtures("may_write")
async def test_what_is_no_ordinary_file_is_not_written(files: Files, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "folder").mkdir()
    (workspace / "file").write_text("x")

    for name in ("pipe", "folder", ".", "file/a"):
        error = await refusal(files.write(at(workspace / name, content="x")))
        assert error.message.endswith("is no ordinary file"), name


@pytest.mark.usefixtures("may_write")
@pytest.mark.skipif(os.geteuid() == 0, reason="to root nothing is read-only")
async def test_a_file_that_is_read_only_stays_as_it_is(files: Files, workspace: Path) -> None:
    (workspace / "a").write_text("old")
    (workspace / "a").chmod(0o444)

    error = await refusal(files.write(at(workspace / "a", content="new")))

    assert error.message == f"the system does not allow it for {workspace}/a"
    assert (workspace / "a").read_text() == "old"


@pytest.mark.usefixtures("may_write")
@pytest.mark.skipif(os.geteuid() == 0, reason="to root no folder is closed")
async def test_in_a_folder_that_is_closed_a_file_is_written_over(
    files: Files, workspace: Path
) -> None:
    (workspace / "a").write_text("old")
    with closed(workspace):
        await files.write(at(workspace / "a", content="new"))

    assert (workspace / "a").read_text() == "new"


def test_a_link_that_is_put_there_meanwhile_is_not_followed(
    workspace: Path, tmp_path: Path
) -> None:
    (workspace / "folder").mkdir()
    (tmp_path / "outside").mkdir()
    inside = Ground(str(workspace)).place(f"{workspace}/folder/a")
    file = Ground(str(workspace)).place(f"{workspace}/b")

    (workspace / "folder").rmdir()
    (workspace / "folder").symlink_to(tmp_path / "outside")
    (workspace / "b").symlink_to(tmp_path / "outside" / "b")

    with pytest.raises(NotADirectoryError):
        write(inside, b"x")
    with pytest.raises(NotOrdinary):
        write(file, b"x")
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_write_that_fails_leaves_the_file_as_it_was(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "a").write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "replace", full)

    with pytest.raises(OSError, match="no space"):
        write(Ground(str(workspace)).place(f"{workspace}/a"), b"new")
    assert {path.name: path.read_text() for path in workspace.iterdir()} == {"a": "old"}


@pytest.mark.usefixtures("may_write")
@pytest.mark.parametrize("content", [None, 5, ["x"], "half \ud800", "x" * 10_500_000])
async def test_what_is_no_text_or_too_much_is_not_written(
    files: Files, workspace: Path, content: object
) -> None:
    error = await refusal(files.write(at(workspace / "a", content=content)))

    assert (error.code, (workspace / "a").exists()) == (INVALID_PARAMS, False)


# Rights -----------------------------------------------------------------------------------


async def test_reading_in_the_workspace_asks_nobody(
    files: Files, workspace: Path, person: Person
) -> None:
    (workspace / "a").write_text("hi")

    await read(files, workspace / "a")

    assert person.asked == []


async def test_writing_asks_a_person(files: Files, workspace: Path, person: Person) -> None:
    error = await refusal(files.write(at(workspace / "a", content="x")))

    [question] = person.asked
    assert (question.kind, question.inside_workspace) == ("edit", True)
    assert question.question == f"Write {workspace}/a"
    assert question.input == {"path": f"{workspace}/a"}
    assert error.message == "it is not allowed to edit here"
    assert not (workspace / "a").exists()


async def test_a_person_may_allow_it(files: Files, workspace: Path, person: Person) -> None:
    person.answer = "allow_once"

    await files.write(at(workspace / "a", content="x"))

    assert (workspace / "a").read_text() == "x"


async def test_what_was_allowed_before_is_not_asked_again(
    files: Files, workspace: Path, person: Person, grants: Grants
) -> None:
    (workspace / "link").symlink_to("a")
    grants.add(ToolFacts(kind="edit"), "allow_once", places=[f"{workspace}/a"])

    await files.write(at(workspace / "link", content="x"))

    assert person.asked == []
    await refusal(files.write(at(workspace / "b", content="x")))
    assert len(person.asked) == 1


async def test_a_write_that_nobody_waits_for_any_more_is_not_done(
    files: Files, workspace: Path, person: Person
) -> None:
    person.decides = trio.Event()

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
async def test_who_has_no_right_neither_reads_nor_writes(
    office: StandInOffice, files: Files, workspace: Path, person: Person, permissions: Permissions
) -> None:
    (workspace / "a").write_text("old")
    office.permissions = permissions

    await refusal(files.read(at(workspace / "a")))
    await refusal(files.write(at(workspace / "a", content="new")))

    assert (person.asked, (workspace / "a").read_text()) == ([], "old")


async def test_without_a_workspace_there_are_no_files(
    office: StandInOffice, files: Files, workspace: Path
) -> None:
    office.workspace = None

    assert (await refusal(files.read(at(workspace)))).message == "there is no workspace here"


async def test_a_list_of_tools_may_have_the_kind_in_it(
    office: StandInOffice, files: Files, workspace: Path, person: Person
) -> None:
    office.permissions = Permissions(tools=["edit"])
    person.answer = "allow_always"

    await files.write(at(workspace / "a", content="x"))

    assert [question.tool for question in person.asked] == ["edit"]


async def test_a_slow_disk_keeps_only_its_own_waiting(
    files: Files, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = trio.Event()

    def slow(*_: object, **__: object) -> bytes:
        trio.from_thread.run(release.wait)
        return b"late"

    monkeypatch.setattr(module, "read_lines", slow)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.read, at(workspace / "a"))
        await trio.to_thread.run_sync(lambda: None)  # the threads of others are free
        release.set()


# A workspace that is moved ---------------------------------------------------------------------


def replace_by_a_link(workspace: Path) -> None:
    moved = workspace.rename(workspace.with_name("moved"))
    elsewhere = moved.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("secret")
    workspace.symlink_to(elsewhere)


async def test_what_takes_the_place_of_the_workspace_is_not_served(
    office: StandInOffice, limiter: trio.CapacityLimiter, workspace: Path
) -> None:
    pin = Pin.of(str(workspace))
    files = Files(office, ask=Person().ask, grants=Grants(), limiter=limiter, pin=pin)

    replace_by_a_link(workspace)

    assert (await refusal(read(files, workspace / "secret"))).code == INVALID_PARAMS
