"""Folders and files that are nobody else's: the socket's, the state's, the token's.

Rule 1: what is there already is looked at and never changed: who made it so may have had a reason,
        and hears what is wrong with it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, Literal

from supervisor.core.errors import ConfigError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def make_folder(path: Path, *, others: Literal["nothing", "look"]) -> None:
    """Have a folder there of which `others` may do so much; raises `ConfigError` if they may more.

    What is made is for its owner alone, all folders above it that are missing too.
    """
    try:
        _make(path)
        found = path.stat()
    except OSError as error:
        raise ConfigError(
            f"the folder {path} cannot be made: {error.strerror}",
            hint="name a folder that you may write to",
        ) from error
    refused = _OTHERS if others == "nothing" else _OTHERS_WRITE
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{path} is no folder", hint="name a folder, or move that away")
    _refuse_unless_ours(path, found, refused, is_mode="700")


def refuse_unless_private(path: Path, found: os.stat_result) -> None:
    """Raise `ConfigError` if a file is not ours, or can be read by others."""
    _refuse_unless_ours(path, found, _OTHERS, is_mode="600")


def _make(path: Path) -> None:
    missing = [path, *path.parents]
    for folder in reversed(missing):
        if not folder.exists():
            folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)


def _refuse_unless_ours(path: Path, found: os.stat_result, refused: int, *, is_mode: str) -> None:
    if found.st_uid != os.geteuid():
        raise ConfigError(
            f"{path} is another user's",
            hint="name one of your own, or run this as the user who owns it",
        )
    if found.st_mode & refused:
        raise ConfigError(
            f"{path} is open to other users (mode {stat.S_IMODE(found.st_mode):o})",
            hint=f"chmod {is_mode} {path}",
        )
