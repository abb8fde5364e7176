"""What a caller has and knows after a restart of the supervisor."""

from __future__ import annotations

from pathlib import Path

import supervisor
from supervisor.mcp_server.session_tools import SessionTools
from tests.support.tool_calls import CallingSession


async def test_cursors_names_and_sessions_outlive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with supervisor.open(path) as sup:
        parent = await sup.create("echo")
        child = await parent.spawn("echo", "errand", name="tom", role="scout")
        over = await parent.spawn("echo", "errand", name="ann")
        caller = CallingSession(SessionTools(sup), parent.id)
        first = await caller.call("wait", until="all")
        await over.stop()
        await child.wait_idle()
        stranger = await sup.create("echo")
        await stranger.stop()

    async with supervisor.open(path) as sup:
        caller = CallingSession(SessionTools(sup), parent.id)
        known = await caller.call("wait", sessions=["tom"], after=first["cursor"])
        stopped = await caller.call("wait", after=first["cursor"])
        again = await caller.call("wait", sessions=["scout"], after=f"{child.id}:1")

        assert not known["sessions"][0]["has_news"]
        assert [one["session"] for one in stopped["sessions"] if one["has_news"]] == [over.id]
        assert again["sessions"][0]["has_news"]
        assert (await caller.call("read", session=over.id))["outcome"] == "completed"
        assert (await caller.call("read", session="ann"))["session"] == over.id
        refused = await caller.refusal("read", session=stranger.id)
        assert refused["code"] == "session_not_found"
        rows = (await caller.call("tree", stopped=True))["sessions"]
        assert [one["session"] for one in rows] == [parent.id, child.id, over.id]
        left = (await caller.call("agents"))["left"]
        assert (left["spawns"], left["descendants"]) == (198, 49)
