"""A folder of our own with a short name: the address of a unix socket has 107 bytes."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="us-") as made:
        yield Path(made)
