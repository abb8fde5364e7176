"""Private folders: of the socket, the state and the token.

Rule 1: an existing folder is checked and never changed; its mode may be intended, so the error
        says what is wrong with it.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final, Literal

from supervisor.configuration.private_files import OTHERS_ANY, check_owner_and_mode
from supervisor.core.errors import ConfigError
from supervisor.store.sqlite.files import disk_full_error, is_disk_full

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def make_folder(path: Path, *, others: Literal["nothing", "look"]) -> None:
    """Create a folder for its owner alone, with missing parents.

    Raise `StoreDegraded` if the disk is full, and `ConfigError` if the folder cannot be created, is
    not a directory of ours, or other users have rights on it (`others="nothing"`) or may write to
    it (`others="look"`).
    """
    try:
        _create_folders(path)
        found = path.stat()
    except OSError as error:
        if is_disk_full(error, path):
            raise disk_full_error(f"cannot create the folder {path}") from error
        raise ConfigError(
            f"cannot create the folder {path}: {error.strerror}",
            hint="choose a folder that you can write to",
        ) from error
    refused = OTHERS_ANY if others == "nothing" else _OTHERS_WRITE
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(
            f"{path} is not a directory", hint="choose a directory, or move the file away"
        )
    check_owner_and_mode(path, found, refused, expected_mode="700")


def _create_folders(path: Path) -> None:
    missing = [path, *path.parents]
    for folder in reversed(missing):
        if not folder.exists():
            folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
