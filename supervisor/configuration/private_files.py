"""Private files: who may own and read them, and the token, which the daemon and clients read.

Rule 1: an existing file or folder is checked and never changed; its mode may be intended, so the
        error says what is wrong with it.
Rule 2: a token is read only from a regular path of its owner that no other user can read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

from supervisor.core.errors import ConfigError

OTHERS_ANY: Final = stat.S_IRWXG | stat.S_IRWXO
_TOKEN_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{32,128}")
_MAX_TOKEN_BYTES: Final = 1024


def read_token(path: Path) -> str:
    """Return the token; raise `ConfigError` if it is missing or readable by other users."""
    try:
        # Not blocking, because the path may name a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ConfigError(
            f"no token at {path}",
            hint="start `understudy serve --tcp PORT` once: the daemon creates it",
        ) from None
    except OSError as error:
        raise token_unusable(path, error) from error
    try:
        check_owner_and_mode(path, os.fstat(descriptor), OTHERS_ANY, expected_mode="600")
        text = os.read(descriptor, _MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise token_unusable(path, error) from error
    finally:
        os.close(descriptor)
    if not _TOKEN_SHAPE.fullmatch(text):
        raise ConfigError(
            f"{path} does not contain a token",
            hint="give the path of the daemon's token file; if it is that file, delete it:"
            " the next start creates another one",
        )
    return text


def token_unusable(path: Path, error: OSError) -> ConfigError:
    """Return the error for a token that the system does not let us read or create."""
    return ConfigError(
        f"cannot use the token at {path}: {error.strerror}",
        hint="free some space on its disk"
        if error.errno == errno.ENOSPC
        else "check the owner and mode of the file and of its folder",
    )


def check_owner_and_mode(
    path: Path, found: os.stat_result, refused: int, *, expected_mode: str
) -> None:
    """Raise `ConfigError` if another user owns the path, or has one of the refused rights.

    Root may use the files of every user.
    """
    # A folder such as /tmp is shared on purpose, whichever user owns it.
    is_shared = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    own_folder = "use a folder of its own with mode 700"
    if os.geteuid() not in (found.st_uid, 0):
        raise ConfigError(
            f"{path} belongs to another user (uid {found.st_uid})",
            hint=own_folder if is_shared else "choose a path of your own, or run as the owner",
        )
    if found.st_mode & refused:
        raise ConfigError(
            f"{path} is accessible to other users (mode {stat.S_IMODE(found.st_mode):o})",
            hint=own_folder if is_shared else f"chmod {expected_mode} {path}",
        )
