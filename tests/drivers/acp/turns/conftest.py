"""Every async test of this folder runs in virtual time: a time-out costs nothing and is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)
