"""Rights: a child has what its parent has, or less."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import settle
from supervisor import (
    ConfigError,
    PermissionDenied,
    Permissions,
    Session,
    Supervisor,
)
from supervisor.core.permissions import MODES, RIGHTS, Mode, Right
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.tree_queries import ask, check_tree_counts, refusal

# Sets and modes -----------------------------------------------------------------------------------


async def test_a_child_without_permissions_inherits_its_parents_permissions(
    sup: Supervisor,
) -> None:
    rights = Permissions(tools=["a", "b"], skills=[], network_channels=["n"], mode="approve_all")
    parent = await sup.create("fake", permissions=rights)
    child = await parent.spawn("child-agent", "x")
    below = await child.spawn("child-agent", "y", permissions=Permissions())

    assert (await child.info()).permissions == (await parent.info()).permissions == rights
    assert (await below.info()).permissions == rights


def only_with(right: Right, *names: str) -> Permissions:
    changes: dict[str, Any] = {right: names}
    return Permissions(**changes)


@pytest.mark.parametrize("right", RIGHTS)
async def test_a_child_may_have_less(sup: Supervisor, right: Right) -> None:
    parent = await sup.create("fake", permissions=only_with(right, "a", "b"))
    for some in (["a", "b"], ["a"], []):
        child = await parent.spawn("child-agent", "x", permissions=only_with(right, *some))
        assert getattr((await child.info()).permissions, right) == frozenset(some)


@pytest.mark.parametrize("right", RIGHTS)
async def test_a_child_may_not_have_more(sup: Supervisor, right: Right) -> None:
    parent = await sup.create("fake", permissions=only_with(right, "a", "b"))
    refused = await refusal(
        parent.spawn("child-agent", "x", permissions=only_with(right, "a", "c"))
    )

    assert (refused.limit, refused.used, refused.allowed) == ("permissions", None, None)
    assert "c" in str(refused)
    assert (await parent.info()).children == ()
    await check_tree_counts(sup)


async def test_an_empty_permission_set_cannot_be_widened(
    sup: Supervisor,
) -> None:
    parent = await sup.create("fake", permissions=Permissions(tools=[]))
    child = await parent.spawn("child-agent", "x")

    assert (await child.info()).permissions.tools == frozenset()
    assert (
        await refusal(child.spawn("child-agent", "y", permissions=Permissions(tools=["a"])))
    ).limit


async def test_permissions_refused_to_a_child_are_refused_to_its_children(sup: Supervisor) -> None:
    root = await sup.create("fake")
    child = await root.spawn("child-agent", "x", permissions=Permissions(tools=["a"]))
    refused = await refusal(child.spawn("child-agent", "y", permissions=Permissions(tools=["b"])))

    assert refused.limit == "permissions"


@pytest.mark.parametrize("had", MODES)
@pytest.mark.parametrize("asked", MODES)
async def test_a_childs_mode_is_never_wider(sup: Supervisor, had: Mode, asked: Mode) -> None:
    parent = await sup.create("fake", permissions=Permissions(mode=had))
    wish = parent.spawn("child-agent", "x", permissions=Permissions(mode=asked))

    if MODES.index(asked) > MODES.index(had):
        assert (await refusal(wish)).limit == "permissions"
    else:
        assert (await (await wish).info()).permissions.mode == asked


async def test_names_are_exact(sup: Supervisor) -> None:
    parent = await sup.create("fake", permissions=Permissions(tools=["bash"]))
    for other in ("Bash", "bash ", "bas", "*", "bash2"):
        await refusal(parent.spawn("child-agent", "x", permissions=Permissions(tools=[other])))


async def test_a_name_that_names_nothing_is_an_error() -> None:
    with pytest.raises(ConfigError):
        Permissions(tools=[" "])


async def test_a_refusal_for_rights_is_on_record(sup: Supervisor) -> None:
    parent = await sup.create("fake", permissions=Permissions(tools=[]))
    await refusal(parent.spawn("child-agent", "x", permissions=Permissions(tools=["a"])))
    await settle()

    (refused,) = await records(parent, "spawn_refused")
    assert refused.body["limit"] == "permissions"


async def test_permissions_are_checked_at_use(
    sup: Supervisor, session: Session, child_agent: FakeAgent
) -> None:
    await session.spawn("child-agent", "x", permissions=Permissions(tools=["read"]))
    at_work = await child_agent.next_run()
    await at_work.open_call("read")

    with pytest.raises(PermissionDenied):
        at_work.turn.tool("bash")
    assert await at_work.do(at_work.turn.ask("may I?", tool="bash")) is False
    assert await sup.permissions() == ()


async def test_answers_for_always_are_not_inherited(
    sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await settle()
    (request,) = await sup.permissions()
    await sup.answer(request.id, "allow_always")
    await action.wait()
    child = await session.spawn("child-agent", "x")
    asking = await ask(await child_agent.next_run())

    assert await child.rules() == []
    assert not asking.done.is_set()


# Workspaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workspace", "granted"),
    [
        (None, "/w/x"),
        ("/w/x", "/w/x"),
        ("/w/x/", "/w/x"),
        ("/w/x/deep/er", "/w/x/deep/er"),
        ("/w/x/../x/a", "/w/x/a"),
    ],
)
async def test_a_child_works_inside_its_parents_workspace(
    sup: Supervisor, workspace: str | None, granted: str
) -> None:
    parent = await sup.create("fake", workspace="/w/x")
    child = await parent.spawn("child-agent", "x", workspace=workspace)

    assert (await child.info()).workspace == granted


@pytest.mark.parametrize(
    "workspace", ["/", "/w", "/w/xy", "/w/y", "/w/x/../y", "/w/x/../../etc", "/W/x"]
)
async def test_a_child_works_nowhere_else(sup: Supervisor, workspace: str) -> None:
    parent = await sup.create("fake", workspace="/w/x")
    refused = await refusal(parent.spawn("child-agent", "x", workspace=workspace))

    assert (refused.limit, refused.used, refused.allowed) == ("workspace", None, None)
    assert "/w/x" in str(refused)
    await check_tree_counts(sup)


async def test_a_parent_without_a_workspace_may_assign_a_workspace(session: Session) -> None:
    child = await session.spawn("child-agent", "x", workspace="/w")

    assert (await child.info()).workspace == "/w"
    assert (await refusal(child.spawn("child-agent", "y", workspace="/v"))).limit == "workspace"
