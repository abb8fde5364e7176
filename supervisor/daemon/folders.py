"""Private folders and files: of the socket, the state and the token.

Rule 1: an existing folder or file is checked and never changed; its mode may be intended, so the
        error says what is wrong with it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, Literal

from supervisor.core.errors import ConfigError

_OTHERS_ANY: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def make_folder(path: Path, *, others: Literal["nothing", "look"]) -> None:
    """Create a folder for its owner alone, with missing parents; raise `ConfigError`.

    An existing folder must be a directory of ours on which other users have no rights
    (`others="nothing"`) or may not write (`others="look"`).
    """
    try:
        _create_folders(path)
        found = path.stat()
    except OSError as error:
        raise ConfigError(
            f"cannot create the folder {path}: {error.strerror}",
            hint="choose a folder that you can write to",
        ) from error
    refused = _OTHERS_ANY if others == "nothing" else _OTHERS_WRITE
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(
            f"{path} is not a directory", hint="choose a directory, or move the file away"
        )
    _check_owner_and_mode(path, found, refused, expected_mode="700")


def check_private(path: Path, found: os.stat_result) -> None:
    """Raise `ConfigError` if another user owns the file or can read it."""
    _check_owner_and_mode(path, found, _OTHERS_ANY, expected_mode="600")


def _create_folders(path: Path) -> None:
    missing = [path, *path.parents]
    for folder in reversed(missing):
        if not folder.exists():
            folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)


def _check_owner_and_mode(
    path: Path, found: os.stat_result, refused: int, *, expected_mode: str
) -> None:
    # A folder such as /tmp is shared on purpose, whoever owns it.
    is_shared = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    own_folder = "use a folder of its own with mode 700"
    if found.st_uid != os.geteuid():
        raise ConfigError(
            f"{path} belongs to another user (uid {found.st_uid})",
            hint=own_folder if is_shared else "choose a path of your own, or run as the owner",
        )
    if found.st_mode & refused:
        raise ConfigError(
            f"{path} is accessible to other users (mode {stat.S_IMODE(found.st_mode):o})",
            hint=own_folder if is_shared else f"chmod {expected_mode} {path}",
        )
