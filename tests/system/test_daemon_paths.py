"""The five request paths, with a real daemon and real agent processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

import supervisor
from supervisor.client import RemoteSession, connect
from supervisor.drivers.identity import ProcessIdentity
from tests.support.daemon_in_process import Home, temporary_home
from tests.support.daemon_process import AGENTS, Daemon, daemon
from tests.support.process_programs import descendants_of, wait_dead

TEST_SECONDS = 60


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    """One for all that leave it as they found it."""
    with temporary_home(AGENTS) as home, daemon(home) as made:
        yield made


@pytest.fixture
def home() -> Iterator[Home]:
    with temporary_home(AGENTS) as made:
        yield made


async def seen(session: RemoteSession, kind: str) -> supervisor.Record:
    with trio.fail_after(TEST_SECONDS):
        async with session.watch() as feed:
            async for item in feed:
                if isinstance(item, supervisor.Record) and item.kind == kind:
                    return item
    raise AssertionError("the feed has ended")


async def test_a_prompt_over_http(shared: Daemon) -> None:
    with trio.fail_after(TEST_SECONDS):
        async with connect(shared.home.socket) as sup:
            session = await sup.create("robot")

            receipt = await session.send("say hello")

            assert receipt.status == "started"
            assert (await session.result(receipt.input_id)).text == "hello"
            await session.stop()


async def test_steering_of_a_busy_session(shared: Daemon) -> None:
    with trio.fail_after(TEST_SECONDS):
        async with connect(shared.home.socket) as sup:
            session = await sup.create("scripted")
            await session.send("sleep 600")

            receipt = await session.steer("never mind")

            assert receipt.status == "staged"
            await session.interrupt()
            await session.stop()


async def test_an_interrupt_of_one_tool_call(shared: Daemon) -> None:
    with trio.fail_after(TEST_SECONDS):
        async with connect(shared.home.socket) as sup:
            session = await sup.create("scripted")
            receipt = await session.send("tool bash 600\nsay on we go")
            call = (await seen(session, "tool_call")).body["call_id"]

            report = await session.interrupt(supervisor.ToolCall(call))

            assert report.stopped == 1
            result = await session.result(receipt.input_id)
            assert (result.outcome, result.text) == ("completed", "on we go")
            await session.stop()


async def test_a_spawn(shared: Daemon) -> None:
    with trio.fail_after(TEST_SECONDS):
        async with connect(shared.home.socket) as sup:
            parent = await sup.create("echo")

            child = await parent.spawn("robot", "say done", name="child-agent")

            assert (await child.wait()).text == "done"
            (root,) = await sup.tree(parent.id)
            assert [node.name for node in root.children] == ["child-agent"]
            await parent.stop()
            assert (await child.info()).stop_reason == "parent_stopped"


async def begin_work(home: Home) -> tuple[str, str]:
    """A session with a turn that does not end, and an input behind it."""
    async with connect(home.socket) as sup:
        session = await sup.create("robot")
        await session.send("fork\nsay away\nsleep 600")
        await seen(session, "agent_text")
        queued = await session.send("say later")
        return session.id, queued.input_id


async def look_after(home: Home, session_id: str, queued: str) -> None:
    async with connect(home.socket) as sup:
        session = sup.session(session_id)
        assert (await session.result(queued)).text == "later"
        history = await session.history()
    ended = [one for group in history for one in group.records if one.kind == "turn_ended"]
    assert [one.body["outcome"] for one in ended] == ["lost", "completed"]


def test_a_restart_after_a_kill(home: Home) -> None:
    """Nothing of the agents is left, and what was accepted runs when it is back."""
    with daemon(home) as first:
        session_id, queued = trio.run(begin_work, home)
        agents: list[ProcessIdentity] = descendants_of(first.pid)
        assert len(agents) >= 2  # a guardian, an agent, and what that has started
        first.kill()
        wait_dead(agents)

    with daemon(home) as second:
        trio.run(look_after, home, session_id, queued)
        assert second.leave() == 0
