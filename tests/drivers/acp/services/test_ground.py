"""Where an agent may work; see acp/services/ground.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.services.ground import Ground, OffLimits
from tests.drivers.office import StandInOffice


def is_on(ground: Ground, path: str) -> bool:
    try:
        ground.place_of(path)
    except OffLimits:
        return False
    return True


def test_without_a_workspace_there_is_no_ground() -> None:
    assert Ground.of(StandInOffice()) is None


def test_without_a_right_to_any_path_there_is_no_ground() -> None:
    office = StandInOffice(workspace="/w", permissions=Permissions(workspace_paths=[]))

    assert Ground.of(office) is None


def test_a_path_inside_is_told_by_its_names(workspace: Path) -> None:
    place = Ground(str(workspace)).place(f"{workspace}/a/b/../c.txt")

    assert place.parts == ("a", "c.txt")
    assert place.path == str(workspace / "a" / "c.txt")


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/", "a", "", "~/x", "/w\0", "/" + "x" * 5000, "../x"],
)
def test_what_is_not_an_absolute_path_inside_is_off_limits(workspace: Path, path: str) -> None:
    with pytest.raises(OffLimits):
        Ground(str(workspace)).place(path)


def test_a_neighbour_whose_name_begins_the_same_is_off_limits(workspace: Path) -> None:
    assert not is_on(Ground(str(workspace)), f"{workspace}-other/a")


def test_a_link_counts_as_where_it_leads(workspace: Path, tmp_path: Path) -> None:
    (workspace / "out").symlink_to(tmp_path)
    (workspace / "in").symlink_to(workspace / "a")
    ground = Ground(str(workspace))

    assert not is_on(ground, f"{workspace}/out/secret")
    assert ground.place(f"{workspace}/in").parts == ("a",)


def test_a_workspace_that_is_a_link_is_where_it_leads(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(workspace)

    assert Ground(str(link)).place(f"{link}/a").path == str(workspace / "a")
    assert Ground(str(link)).place(f"{workspace}/a").parts == ("a",)


def test_only_paths_that_the_session_has_a_right_to_are_on_the_ground(workspace: Path) -> None:
    ground = Ground(str(workspace), frozenset({"src", f"{workspace}/README"}))

    assert is_on(ground, f"{workspace}/src/deep/a.py")
    assert is_on(ground, f"{workspace}/README")
    assert not is_on(ground, f"{workspace}/srcs")
    assert not is_on(ground, f"{workspace}/src/../secret")


@pytest.mark.parametrize(
    "path", ["a.txt", "./a/../b", "file:///{w}/a%20b", "file://localhost{w}/a"]
)
def test_tools_may_name_paths_in_their_own_ways(workspace: Path, path: str) -> None:
    assert is_on(Ground(str(workspace)), path.replace("{w}", str(workspace)))


@pytest.mark.parametrize(
    "path",
    ["..", "a/../../b", "file:///etc/passwd", "file://elsewhere{w}/a", "file://[x", "~root/a"],
)
def test_no_way_of_naming_leads_out(workspace: Path, path: str) -> None:
    assert not is_on(Ground(str(workspace)), path.replace("{w}", str(workspace)))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_every_text_is_on_the_ground_or_off_limits(path: str) -> None:
    ground = Ground("/nowhere/workspace")

    try:
        place = ground.place_of(path)
    except OffLimits:
        return
    assert place.path == "/nowhere/workspace" or place.path.startswith("/nowhere/workspace/")
