"""Confined agents: the limits of their sessions, which no caller can widen."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import supervisor
from supervisor import Confined, Limits, Permissions, Supervisor
from supervisor.drivers.builtin import echo
from supervisor.drivers.python import PythonAgent

RIGHTS = Permissions(tools=["read", "grep"], mode="approve_reads")
LIMITS = Limits(max_children=2)


@pytest.fixture
async def sup() -> AsyncIterator[Supervisor]:
    careful = PythonAgent("careful", echo.function)
    agent = Confined(careful, permissions=RIGHTS, limits=LIMITS, workspace="/project/there")
    async with supervisor.open(agents=[agent]) as opened:
        yield opened


async def test_a_session_gets_the_defaults_of_its_restricted_agent(sup: Supervisor) -> None:
    info = await (await sup.create("careful")).info()

    assert info.permissions == RIGHTS
    assert info.limits == LIMITS
    assert info.workspace == "/project/there"


async def test_a_caller_may_override_the_defaults_of_a_restricted_agent(sup: Supervisor) -> None:
    asked = Permissions(tools=["write"], mode="approve_all")

    info = await (await sup.create("careful", permissions=asked, workspace="/tmp/here")).info()  # noqa: S108 - a name

    assert (info.permissions, info.workspace) == (asked, "/tmp/here")  # noqa: S108


async def test_get_or_create_of_a_restricted_agent_applies_its_rights(sup: Supervisor) -> None:
    session = await sup.get_or_create("careful:chat:anna")

    assert (await session.info()).permissions == RIGHTS


async def test_a_child_never_gets_more_than_its_agent_is_confined_to(sup: Supervisor) -> None:
    parent = await sup.create("echo", permissions=Permissions(mode="approve_all"))

    child = await parent.spawn("careful", "hello")

    assert (await child.info()).permissions == RIGHTS


async def test_nor_more_than_its_parent_has(sup: Supervisor) -> None:
    parent = await sup.create("echo", permissions=Permissions(tools=["grep", "write"]))

    child = await parent.spawn("careful", "hello")

    assert (await child.info()).permissions.tools == frozenset({"grep"})


async def test_a_restricted_agent_works_like_its_agent(sup: Supervisor) -> None:
    assert (await (await sup.create("careful")).prompt("hello")).text == "hello"
