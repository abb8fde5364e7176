"""The token that a port asks for: made once, kept in a file that only its owner can read.

Rule 1: it is never anywhere else. Not in arguments, not in an agent's environment, not in a log.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Final

from supervisor.core.errors import ConfigError

from .folders import refuse_unless_private

_BYTES: Final = 32
_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{32,128}")
_MOST_BYTES: Final = 1024
_OWNER_ONLY: Final = 0o600


def ensure_token(path: Path) -> str:
    """The token in that file, made if there is none; raises `ConfigError`."""
    try:
        _make(path)
    except FileExistsError:
        pass
    except OSError as error:
        raise _unusable(path, error) from error
    return read_token(path)


def read_token(path: Path) -> str:
    """The token in that file; raises `ConfigError` if there is none, or if others can read it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ConfigError(
            f"there is no token at {path}",
            hint="serve with a port once, `understudy serve --tcp PORT`, which makes it",
        ) from None
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        refuse_unless_private(path, os.fstat(descriptor))
        text = os.read(descriptor, _MOST_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if not _SHAPE.fullmatch(text):
        raise ConfigError(
            f"what is in {path} is no token", hint="delete it; the next start makes another"
        )
    return text


def _make(path: Path) -> None:
    """Write it beside, and link it into its place: nobody ever sees half a token, or two."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
    try:
        try:
            os.write(descriptor, f"{secrets.token_urlsafe(_BYTES)}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(beside, path)
    finally:
        beside.unlink()


def _unusable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"the token at {path} cannot be used: {error.strerror}",
        hint="look at the file's owner and mode, and at those of its folder",
    )
