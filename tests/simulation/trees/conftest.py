"""Silence the log of the supervisor: the simulations crash agents on purpose."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet_supervisor() -> Iterator[None]:
    logger = logging.getLogger("supervisor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
