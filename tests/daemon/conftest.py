"""A folder of our own with a short name: the address of a unix socket has 107 bytes."""

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="us-") as made:
        yield Path(made)


@pytest.fixture
def systemd(folder: Path) -> Iterator[socket.socket]:
    """Yield a socket that receives the notifications for systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listens:
        listens.bind(str(folder / "notify"))
        listens.settimeout(30)
        yield listens
