"""The folder behind a workspace, compared with a later look at it."""

from __future__ import annotations

import pytest

from supervisor.core.workspace_root import WorkspaceRoot, is_inside

FOUND = WorkspaceRoot("/w", 1, 2)
MISSING = WorkspaceRoot("/w")


@pytest.mark.parametrize("later", [FOUND, MISSING])
def test_the_same_or_a_missing_folder_agrees_with_a_pin(later: WorkspaceRoot) -> None:
    assert FOUND.agrees_with(later)
    assert MISSING.agrees_with(later)


@pytest.mark.parametrize(
    "later", [WorkspaceRoot("/w", 1, 3), WorkspaceRoot("/w", 2, 2), WorkspaceRoot("/x", 1, 2)]
)
def test_another_folder_does_not_agree_with_a_pin(later: WorkspaceRoot) -> None:
    assert not FOUND.agrees_with(later)


def test_a_folder_with_the_same_inode_agrees_unless_its_birth_time_differs() -> None:
    pin = WorkspaceRoot("/w", 1, 2, 30)

    assert pin.agrees_with(WorkspaceRoot("/w", 1, 2, 30))
    assert pin.agrees_with(FOUND)
    assert not pin.agrees_with(WorkspaceRoot("/w", 1, 2, 31))


@pytest.mark.parametrize(
    ("path", "folder", "inside"),
    [
        ("/w", "/w", True),
        ("/w/x", "/w", True),
        ("/w", "/", True),
        ("/wx", "/w", False),
        ("/", "/w", False),
    ],
)
def test_a_path_is_inside_its_folder_only(path: str, folder: str, inside: object) -> None:
    assert is_inside(path, folder) is inside
