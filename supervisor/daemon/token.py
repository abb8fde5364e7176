"""The token of the TCP port: created once, in a file that only its owner can read.

Rule 1: the token is stored in no other place: not in arguments, an agent's environment or a log.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Final

from supervisor.core.errors import ConfigError

from .folders import check_private

_BYTES: Final = 32
_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{32,128}")
_MAX_BYTES: Final = 1024
_OWNER_ONLY: Final = 0o600


def ensure_token(path: Path) -> str:
    """Return the token in the file; create the file if it is missing.

    Raise `ConfigError` if the token cannot be written, is malformed, or is readable by other users.
    """
    try:
        _create_token(path)
    except FileExistsError:
        pass
    except OSError as error:
        raise _unusable_error(path, error) from error
    return read_token(path)


def read_token(path: Path) -> str:
    """Return the token; raise `ConfigError` if it is missing or readable by other users."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ConfigError(
            f"no token at {path}",
            hint="start `understudy serve --tcp PORT` once, which creates it",
        ) from None
    except OSError as error:
        raise _unusable_error(path, error) from error
    try:
        check_private(path, os.fstat(descriptor))
        text = os.read(descriptor, _MAX_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if not _SHAPE.fullmatch(text):
        raise ConfigError(
            f"{path} does not contain a token",
            hint="delete it; the next start creates another one",
        )
    return text


def _create_token(path: Path) -> None:
    """Write a temporary file and link it to `path`, so that no reader sees a partial token."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
    try:
        try:
            os.write(descriptor, f"{secrets.token_urlsafe(_BYTES)}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(temporary, path)
    finally:
        temporary.unlink()


def _unusable_error(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot use the token at {path}: {error.strerror}",
        hint="check the owner and mode of the file and of its folder",
    )
