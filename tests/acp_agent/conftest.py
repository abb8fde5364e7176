"""Fixtures of the tests of `understudy acp`: a supervisor in memory, and an editor."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import supervisor
from tests.support.acp_editor import Editor, editing, opened_supervisor


@pytest.fixture
async def sup() -> AsyncIterator[supervisor.Supervisor]:
    async with opened_supervisor() as opened:
        yield opened


@pytest.fixture
async def editor(sup: supervisor.Supervisor) -> AsyncIterator[Editor]:
    """Yield an initialized editor that offers nothing."""
    async with editing(sup) as found:
        await found.start()
        yield found
