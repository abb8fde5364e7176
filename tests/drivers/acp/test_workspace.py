"""Checked paths of the workspace; see acp/workspace.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.workspace import OutsideWorkspace, Workspace
from tests.support.driver_context import FakeDriverContext

pytestmark = pytest.mark.usefixtures("no_open_descriptors")


def is_on(ground: Workspace, path: str) -> bool:
    try:
        ground.resolve_tool_path(path)
    except OutsideWorkspace:
        return False
    return True


def test_a_session_without_a_workspace_has_none() -> None:
    assert Workspace.of(FakeDriverContext()) is None


def test_a_session_without_permitted_paths_has_no_workspace() -> None:
    context = FakeDriverContext(workspace="/w", permissions=Permissions(workspace_paths=[]))

    assert Workspace.of(context) is None


def test_a_path_inside_is_resolved_to_its_parts(workspace: Path) -> None:
    place = Workspace(str(workspace)).resolve(f"{workspace}/a/b/../c.txt")

    assert place.parts == ("a", "c.txt")
    assert place.path == str(workspace / "a" / "c.txt")


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/", "a", "", "~/x", "/w\0", "/" + "x" * 5000, "../x"],
)
def test_a_path_that_is_not_absolute_or_inside_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(OutsideWorkspace):
        Workspace(str(workspace)).resolve(path)


def test_a_sibling_folder_with_the_same_prefix_is_refused(workspace: Path) -> None:
    assert not is_on(Workspace(str(workspace)), f"{workspace}-other/a")


def test_a_link_counts_as_its_target(workspace: Path, tmp_path: Path) -> None:
    (workspace / "out").symlink_to(tmp_path)
    (workspace / "in").symlink_to(workspace / "a")
    ground = Workspace(str(workspace))

    assert not is_on(ground, f"{workspace}/out/secret")
    assert ground.resolve(f"{workspace}/in").parts == ("a",)


def test_a_workspace_that_is_a_link_is_resolved(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(workspace)

    assert Workspace(str(link)).resolve(f"{link}/a").path == str(workspace / "a")
    assert Workspace(str(link)).resolve(f"{workspace}/a").parts == ("a",)


def test_only_permitted_paths_are_resolved(workspace: Path) -> None:
    ground = Workspace(str(workspace), frozenset({"src", f"{workspace}/README"}))

    assert is_on(ground, f"{workspace}/src/deep/a.py")
    assert is_on(ground, f"{workspace}/README")
    assert not is_on(ground, f"{workspace}/srcs")
    assert not is_on(ground, f"{workspace}/src/../secret")


@pytest.mark.parametrize(
    "path", ["a.txt", "./a/../b", "file:///{w}/a%20b", "file://localhost{w}/a"]
)
def test_tool_paths_may_be_relative_or_file_uris(workspace: Path, path: str) -> None:
    assert is_on(Workspace(str(workspace)), path.replace("{w}", str(workspace)))


@pytest.mark.parametrize(
    "path",
    ["..", "a/../../b", "file:///etc/passwd", "file://elsewhere{w}/a", "file://[x", "~root/a"],
)
def test_no_form_of_a_tool_path_leads_out(workspace: Path, path: str) -> None:
    assert not is_on(Workspace(str(workspace)), path.replace("{w}", str(workspace)))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_is_resolved_inside_or_refused(path: str) -> None:
    ground = Workspace("/nowhere/workspace")

    try:
        place = ground.resolve_tool_path(path)
    except OutsideWorkspace:
        return
    assert place.path == "/nowhere/workspace" or place.path.startswith("/nowhere/workspace/")
