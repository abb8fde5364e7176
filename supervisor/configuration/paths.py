"""Paths of the configuration files, in reading order, and of the files of the daemon.

They follow the XDG base directories. The project file is searched in the working directory only,
never in its parents: it can name commands, so a writer of a parent directory could run programs.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PREFIX: Final = "UNDERSTUDY_"
# Path of a file that replaces all others.
FILE_VARIABLE: Final = "UNDERSTUDY_CONFIG"
# Name of the host whose daemon the commands use.
HOST_VARIABLE: Final = "UNDERSTUDY_HOST"
# Variables with our prefix that are not settings.
IGNORED_VARIABLES: Final = frozenset(
    {
        *(FILE_VARIABLE, HOST_VARIABLE, "UNDERSTUDY_CONTAINMENT"),
        *("UNDERSTUDY_TOOLS_SOCKET", "UNDERSTUDY_SESSION_TOKEN"),  # of the bridge of an agent
    }
)
# The longest path of a unix socket in Linux, without the final zero byte.
MAX_SOCKET_PATH_BYTES: Final = 107

FILE_NAME: Final = "understudy.toml"
FOLDER_NAME: Final = "understudy"
HOSTS_NAME: Final = "hosts.toml"
SOCKET_NAME: Final = "understudy.sock"


def configuration_files(cwd: Path | None, environ: Mapping[str, str]) -> list[Path]:
    """Return the paths of all possible files; a later file wins. Without `cwd`, no project file."""
    folders = _absolute_folders(environ.get("XDG_CONFIG_DIRS") or "/etc/xdg")
    files = [folder / FOLDER_NAME / FILE_NAME for folder in reversed(folders)]
    files.append(_xdg_folder(environ, "XDG_CONFIG_HOME", ".config") / FOLDER_NAME / FILE_NAME)
    if cwd is not None:
        files.append(cwd / FILE_NAME)
    return files


def hosts_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the file with the hosts whose daemons can be used."""
    return _xdg_folder(environ, "XDG_CONFIG_HOME", ".config") / FOLDER_NAME / HOSTS_NAME


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the directory of the database and the token."""
    return _xdg_folder(environ, "XDG_STATE_HOME", ".local/state") / FOLDER_NAME


def socket_path(environ: Mapping[str, str], state: Path) -> Path:
    """Return the socket of the daemon: in the runtime directory, or else in the state folder."""
    folders = _absolute_folders(environ.get("XDG_RUNTIME_DIR", ""))
    return folders[0] / FOLDER_NAME / SOCKET_NAME if folders else state / SOCKET_NAME


def is_setting(variable: str) -> bool:
    """Return True if a variable of this name is read as a setting."""
    return variable.startswith(PREFIX) and variable not in IGNORED_VARIABLES


def unconfigured_socket(cwd: Path, environ: Mapping[str, str]) -> str | None:
    """Return the daemon's socket if nothing is configured; None if there is something to read.

    Most commands need no more of it, and to read it takes longer than a request.
    """
    if environ.get(FILE_VARIABLE) or any(map(is_setting, environ)):
        return None
    if not all(map(_is_missing, configuration_files(cwd, environ))):
        return None
    socket = str(socket_path(environ, state_folder(environ)))
    # The schema reports what is wrong with another path.
    is_valid = socket.isascii() and socket.isprintable() and len(socket) <= MAX_SOCKET_PATH_BYTES
    return socket if is_valid else None


def _is_missing(file: Path) -> bool:
    try:
        file.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # reading it reports the reason
    return False


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the home directory: HOME, else that of the user database."""
    for folder in _absolute_folders(environ.get("HOME", "")):
        return folder
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a user id without an account, as in containers
        return Path("/")


def expand_path(text: str, *, folder: Path, home: Path) -> str:
    """Return an absolute path: `~` is the home, a relative path starts in `folder`."""
    if text == "~" or text.startswith("~/"):
        return os.path.normpath(home / text[2:])
    return os.path.normpath(folder / text)


def _xdg_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = _absolute_folders(environ.get(variable, ""))
    return given[0] if given else home_folder(environ) / below_home


def _absolute_folders(folders: str) -> list[Path]:
    # The XDG specification says to ignore relative paths.
    return [Path(folder) for folder in folders.split(os.pathsep) if folder.startswith("/")]
