"""Silence the logs: the simulations crash actors, kill agents and break stores on purpose.

A look at a workspace has no time-out here: it would be fired early, which refuses the session.
"""

import logging
import math
from collections.abc import Iterator

import pytest

from supervisor.sessions import workspaces


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("actors", "supervisor")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(autouse=True)
def _patient_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "LOOK_SECONDS", math.inf)
