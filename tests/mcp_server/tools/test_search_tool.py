"""`search`: messages of the subtree, and of nothing else."""

from __future__ import annotations

from typing import Any

from supervisor import Session, Supervisor
from tests.support.fake_agents import AgentRun
from tests.support.tool_calls import CallingSession


async def test_only_messages_of_the_subtree_are_found(
    sup: Supervisor, session: Session, parent: CallingSession, run: AgentRun
) -> None:
    stranger = await sup.create("echo")
    await stranger.prompt("zebra elsewhere")
    children = [await session.spawn("echo", f"zebra {number}") for number in range(3)]
    for child in children:
        await child.wait()

    found = (await parent.call("search", text="zebra"))["messages"]

    assert {one["session"] for one in found} == {child.id for child in children}
    assert "[zebra]" in found[0]["text"]
    in_one = await parent.call("search", text="zebra", session=children[0].id)
    assert {one["session"] for one in in_one["messages"]} == {children[0].id}
    assert (await parent.refusal("search", text="zebra", session=stranger.id))["code"] == (
        "session_not_found"
    )
    assert (await parent.call("search", text="elsewhere"))["messages"] == []


async def test_pages_have_every_message_once_the_newest_first(
    session: Session, parent: CallingSession, run: AgentRun
) -> None:
    for number in range(3):
        await (await session.spawn("echo", f"zebra {number}")).wait()
    whole = (await parent.call("search", text="zebra"))["messages"]

    pages: list[Any] = []
    after: dict[str, str] = {}
    while True:
        page = await parent.call("search", text="zebra", limit=2, **after)
        pages += page["messages"]
        if "next" not in page:
            break
        after = {"after": page["next"]}

    assert len(whole) == 6
    assert pages == whole
    assert (await parent.refusal("search", text="x", after="-1"))["code"] == "config_error"
    assert (await parent.refusal("search", text=" "))["code"] == "config_error"
