"""Sessions whose agents require authentication, with real processes."""

from __future__ import annotations

import pytest
import trio

import supervisor
from supervisor import AgentStartFailed, Supervisor

PATIENCE_SECONDS = 30.0


def agent(name: str, *flags: str, auth: str | None = None) -> supervisor.AcpAgent:
    command = supervisor.scripted_process(flags=("--auth", "key", *flags)).command
    return supervisor.acp(name, command, auth=auth)


async def failed_session(sup: Supervisor, name: str) -> supervisor.Info:
    """Return the session after authentication failed."""
    with trio.fail_after(PATIENCE_SECONDS), pytest.raises(AgentStartFailed):
        await sup.create(name)
    (info,) = (await sup.list(agent=name)).items
    assert (info.badge, info.stop_reason) == ("failed", "start_failed")
    assert info.last_failure is not None
    assert info.last_failure.kind == "auth"
    return info


async def test_without_a_method_the_failure_lists_methods_and_the_setting() -> None:
    async with supervisor.open(":memory:", agents=[agent("stranger")]) as sup:
        info = await failed_session(sup, "stranger")

        assert "its methods are: key." in str(info.stop_detail)
        assert "auth=" in str(info.stop_detail)


async def test_with_a_wrong_method_the_failure_quotes_the_agent() -> None:
    async with supervisor.open(":memory:", agents=[agent("wrong", auth="browser")]) as sup:
        info = await failed_session(sup, "wrong")

        assert "authentication by 'browser' failed: " in str(info.stop_detail)
        assert "its methods are: key." in str(info.stop_detail)


async def test_with_the_right_method_the_agent_starts() -> None:
    async with supervisor.open(":memory:", agents=[agent("friend", auth="key")]) as sup:
        with trio.fail_after(PATIENCE_SECONDS):
            session = await sup.create("friend")

            assert (await session.prompt("say hello")).text == "hello"
            assert (await session.info()).badge == "idle"


async def test_a_session_waiting_for_authentication_can_be_stopped() -> None:
    waits = agent("slow", "--hang-at", "authenticate", auth="key")
    async with supervisor.open(":memory:", agents=[waits]) as sup, trio.open_nursery() as nursery:
        nursery.start_soon(sup.create, "slow")
        with trio.fail_after(PATIENCE_SECONDS):
            async with sup.watch() as feed:
                async for item in feed:
                    if isinstance(item, supervisor.Record) and item.body.get("auth") == "key":
                        break
            session = sup.session(item.session_id)
            info, why = await session.info(), await session.why()

            assert (info.badge, info.waiting_for) == ("waiting-for-auth", "auth")
            assert why.waits_for == "person"
            assert "by 'key': log in" in str(why)
            await session.stop()
            assert (await session.info()).badge == "stopped"
