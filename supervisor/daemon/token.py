"""The token of the TCP port: created once, in a file that only its owner can read.

`TcpGate` in `http_server/gate.py` checks it.

Rule 1: the token is stored in no other place: not in arguments, an agent's environment or a log.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from supervisor.configuration.private_files import read_token, token_unusable

_BYTES: Final = 32
_OWNER_ONLY: Final = 0o600


def ensure_token(path: Path) -> str:
    """Return the token in the file; create the file if it is missing.

    Raise `ConfigError` if the token cannot be written, is malformed, or is readable by other users.
    """
    # An existing token needs no room on the disk.
    if not os.path.lexists(path):
        try:
            _create_token(path)
        except FileExistsError:
            pass
        except OSError as error:
            raise token_unusable(path, error) from error
    return read_token(path)


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
