"""Where files lie: the configuration's, in the order in which they are read, and the daemon's.

The places are those of the XDG base directories. The project's file is looked for in the working
folder alone, never above it: it can name commands, and whoever writes into a folder far up would
decide what is run down here.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE_NAME: Final = "understudy.toml"
FOLDER_NAME: Final = "understudy"
SOCKET_NAME: Final = "understudy.sock"


def configuration_files(cwd: Path | None, environ: Mapping[str, str]) -> list[Path]:
    """All files that are looked for, the one that wins last; `cwd` is None for no project."""
    folders = _absolute(environ.get("XDG_CONFIG_DIRS") or "/etc/xdg")
    files = [folder / FOLDER_NAME / FILE_NAME for folder in reversed(folders)]
    files.append(_base(environ, "XDG_CONFIG_HOME", ".config") / FOLDER_NAME / FILE_NAME)
    if cwd is not None:
        files.append(cwd / FILE_NAME)
    return files


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where the daemon keeps its database and its token."""
    return _base(environ, "XDG_STATE_HOME", ".local/state") / FOLDER_NAME


def socket_path(environ: Mapping[str, str], state: Path) -> Path:
    """Where the daemon listens: in the run-time folder, or with its state if there is none."""
    folders = _absolute(environ.get("XDG_RUNTIME_DIR", ""))
    return folders[0] / FOLDER_NAME / SOCKET_NAME if folders else state / SOCKET_NAME


def home_folder(environ: Mapping[str, str]) -> Path:
    """The home of whoever runs this: what HOME says, else what the system knows."""
    for folder in _absolute(environ.get("HOME", "")):
        return folder
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # an account that the system has never heard of, as containers have them
        return Path("/")


def expanded(text: str, *, folder: Path, home: Path) -> str:
    """An absolute path: `~` is the home, and what is not absolute begins in the folder."""
    if text == "~" or text.startswith("~/"):
        return os.path.normpath(home / text[2:])
    return os.path.normpath(folder / text)


def _base(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = _absolute(environ.get(variable, ""))
    return given[0] if given else home_folder(environ) / below_home


def _absolute(folders: str) -> list[Path]:
    # The XDG specification has paths that are not absolute ignored.
    return [Path(folder) for folder in folders.split(os.pathsep) if folder.startswith("/")]
