"""A server over a fake toolbox."""

from __future__ import annotations

import pytest

from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.server import McpServer
from tests.support.fake_toolbox import FakeToolbox


@pytest.fixture
def toolbox() -> FakeToolbox:
    return FakeToolbox()


@pytest.fixture
def server(toolbox: FakeToolbox) -> McpServer:
    return McpServer(toolbox, "1.2.3")


@pytest.fixture
def owner() -> Caller:
    return Caller(name="owner", scope="all")
