"""Permission requests, their answers and grants; see acp/permissions.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.permissions import Permissions
from supervisor.core.state import Decision
from supervisor.drivers.acp.permissions import (
    Grants,
    PermissionAnswer,
    PermissionHandler,
    PermissionQuestion,
    parse_request,
)
from supervisor.drivers.acp.tool_reports import ToolReport, parse_tool_report
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, RpcError
from tests.support.acp_decider import FakeUser, refusal
from tests.support.driver_context import FakeDriverContext

pytestmark = pytest.mark.usefixtures("no_open_descriptors")

KINDS: tuple[Decision, ...] = get_args(Decision)


def options(*kinds: str) -> list[dict[str, Any]]:
    return [
        {"optionId": f"o{place}", "name": kind, "kind": kind} for place, kind in enumerate(kinds)
    ]


def asking(*kinds: str, **call: object) -> dict[str, Any]:
    return {"toolCall": {"toolCallId": "c1", **call}, "options": options(*(kinds or KINDS))}


def nothing_known(_: object) -> ToolReport:
    return ToolReport()


@pytest.fixture
def harness(
    context: FakeDriverContext, user: FakeUser, grants: Grants, limiter: trio.CapacityLimiter
) -> PermissionHandler:
    return PermissionHandler(
        context, ask=user.ask, grants=grants, tool_report=nothing_known, limiter=limiter
    )


async def question(
    harness: PermissionHandler, user: FakeUser, **call: object
) -> PermissionQuestion:
    await harness.handle_request(asking(**call))
    return user.asked[-1]


# Results ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "decided", "chosen"),
    [
        (KINDS, "allow_once", "allow_once"),
        (KINDS, "allow_always", "allow_always"),
        (KINDS, "reject_once", "reject_once"),
        (KINDS, "reject_always", "reject_always"),
        (("allow_once", "reject_once"), "allow_always", "allow_once"),
        (("allow_once", "reject_once"), "reject_always", "reject_once"),
        (("allow_once", "reject_always"), "reject_once", "reject_always"),
        (("allow_always", "reject_once"), "allow_once", None),
        (("allow_once", "allow_always"), "reject_once", None),
        (("reject_once",), "allow_always", None),
        (KINDS, "cancelled", None),
    ],
)
def test_an_option_of_the_decided_kind_is_chosen_never_more(
    offered: tuple[str, ...], decided: PermissionAnswer, chosen: str | None
) -> None:
    request = parse_request(asking(*offered), nothing_known)

    expected: dict[str, Any] = {"outcome": "cancelled"}
    if chosen is not None:
        expected = {"outcome": "selected", "optionId": f"o{offered.index(chosen)}"}
    assert request.result(decided) == {"outcome": expected}


def test_the_first_option_of_a_kind_is_chosen() -> None:
    request = parse_request(asking("allow_once", "allow_once", "reject_once"), nothing_known)

    assert request.options == {"allow_once": "o0", "reject_once": "o2"}


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), st.sampled_from(KINDS))
def test_a_rejection_never_becomes_an_allow_and_once_never_always(
    offered: list[Decision], decided: Decision
) -> None:
    outcome: Any = parse_request(asking(*offered), nothing_known).result(decided)["outcome"]

    if outcome["outcome"] == "selected":
        chosen = offered[int(outcome["optionId"][1:])]
        assert chosen.startswith("allow") == decided.startswith("allow")
        assert (chosen, decided) != ("allow_always", "allow_once")


# Bad requests -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        None,
        "x",
        {},
        {"toolCall": {}, "options": None},
        {"toolCall": {}, "options": []},
        {"toolCall": {}, "options": [{"optionId": "a", "kind": "maybe"}]},
        {"toolCall": {}, "options": [{"optionId": 5, "kind": "allow_once"}]},
        {"toolCall": {}, "options": [{"optionId": "x" * 5000, "kind": "allow_once"}]},
        {"toolCall": "bash", "options": options("allow_once")},
        {"options": options("allow_once")},
    ],
)
async def test_a_malformed_request_is_refused(
    harness: PermissionHandler, user: FakeUser, params: object
) -> None:
    assert (await refusal(harness.handle_request(params))).code == INVALID_PARAMS
    assert user.asked == []


any_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.integers()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(["allow_once", "read", "/w/a", "~", "file://["]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["toolCall", "options", "kind", "optionId", "rawInput", "path", "locations", "name"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=10,
)


@given(any_json, any_json)
def test_any_request_is_parsed_or_refused(call: object, offered: object) -> None:
    for params in (call, {"toolCall": call, "options": offered}):
        try:
            request = parse_request(params, nothing_known)
        except RpcError:
            continue
        assert request.options


# Permission requests ----------------------------------------------------------------------


async def test_a_permission_question_has_the_fields_of_the_request(
    harness: PermissionHandler, user: FakeUser
) -> None:
    asked = await question(
        harness, user, title="Run `ls`", kind="execute", rawInput={"command": "ls"}
    )

    assert (asked.tool, asked.question, asked.kind) == ("Run `ls`", "Run `ls`", "execute")
    assert asked.input == {"command": "ls"}
    assert asked.options == KINDS


async def test_only_offered_options_can_be_decided(
    harness: PermissionHandler, user: FakeUser
) -> None:
    await harness.handle_request(asking("reject_once", "allow_once", "allow_once", "other"))

    assert user.asked[0].options == ("allow_once", "reject_once")


async def test_earlier_reports_of_the_tool_call_are_merged(
    context: FakeDriverContext, user: FakeUser, grants: Grants, limiter: trio.CapacityLimiter
) -> None:
    known = parse_tool_report({"title": "Edit a", "kind": "edit", "rawInput": {"path": "a"}})
    harness = PermissionHandler(
        context, ask=user.ask, grants=grants, tool_report=lambda _: known, limiter=limiter
    )

    asked = await question(harness, user)

    assert (asked.question, asked.kind, asked.input) == ("Edit a", "edit", {"path": "a"})


async def test_permitted_tools_match_by_name_kind_or_title(
    context: FakeDriverContext, harness: PermissionHandler, user: FakeUser
) -> None:
    for tools, known_as in (
        (None, "Bash"),
        (["Bash", "execute"], "Bash"),
        (["execute"], "execute"),
        (["Run ls"], "Run ls"),
        (["other"], "Bash"),
    ):
        context.permissions = Permissions(tools=tools)
        asked = await question(harness, user, title="Run ls", kind="execute", name="Bash")
        assert asked.tool == known_as


async def test_different_titles_are_different_tools(
    harness: PermissionHandler, user: FakeUser
) -> None:
    first = await question(harness, user, title="rm " + "x" * 500 + "a")
    second = await question(harness, user, title="rm " + "x" * 500 + "b")

    assert first.tool != second.tool
    assert len(first.tool) <= 200


# Inside the workspace ---------------------------------------------------------------------


async def inside(harness: PermissionHandler, user: FakeUser, **call: object) -> bool:
    return (await question(harness, user, kind="read", **call)).inside_workspace


async def test_a_path_in_the_workspace_counts_as_inside(
    harness: PermissionHandler, user: FakeUser, workspace: Path
) -> None:
    path = f"{workspace}/a"

    assert await inside(harness, user, locations=[{"path": path}])
    assert await inside(harness, user, rawInput={"file_path": path})
    assert await inside(harness, user, rawInput={"filePath": "src/a.py", "limit": 5})
    assert await inside(harness, user, rawInput={"paths": ["a", "b"], "pattern": "def .*"})


async def test_one_path_outside_makes_the_request_outside(
    harness: PermissionHandler, user: FakeUser, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "out").symlink_to(tmp_path)
    good = [{"path": f"{workspace}/a"}]

    assert not await inside(harness, user, locations=[*good, {"path": "/etc/passwd"}])
    assert not await inside(harness, user, locations=good, rawInput={"path": "/etc/passwd"})
    assert not await inside(harness, user, locations=good, rawInput={"x": {"y": ["../../z"]}})
    assert not await inside(harness, user, locations=good, rawInput={"x": "~/.ssh/id"})
    assert not await inside(harness, user, locations=[{"path": f"{workspace}/out/secret"}])


async def test_a_request_without_paths_is_not_inside(
    harness: PermissionHandler, user: FakeUser
) -> None:
    assert not await inside(harness, user)
    assert not await inside(harness, user, rawInput={"query": "weather", "profile": "mine"})
    assert not await inside(harness, user, rawInput={"url": "https://example.org/path"})


async def test_a_request_with_too_many_paths_is_not_inside(
    harness: PermissionHandler, user: FakeUser
) -> None:
    deep: Any = "a"
    for _ in range(50):
        deep = {"path": deep}

    assert not await inside(harness, user, rawInput={"path": "a", "deep": deep})
    assert not await inside(harness, user, rawInput={"path": "a", "many": ["x"] * 5000})
    assert not await inside(harness, user, rawInput={"paths": [f"a{n}" for n in range(500)]})


async def test_without_a_workspace_nothing_is_inside(
    context: FakeDriverContext, harness: PermissionHandler, user: FakeUser
) -> None:
    context.workspace = None

    assert not await inside(harness, user, rawInput={"path": "a"})


# Grants -----------------------------------------------------------------------------------


async def test_a_grant_covers_the_files_of_the_question(
    harness: PermissionHandler, user: FakeUser, grants: Grants, workspace: Path
) -> None:
    user.answer = "allow_once"
    diff = {"type": "diff", "path": f"{workspace}/a", "oldText": "", "newText": "x"}

    answer = await harness.handle_request(asking(kind="edit", content=[diff]))

    assert answer == {"outcome": {"outcome": "selected", "optionId": "o0"}}
    assert grants.covers_write(f"{workspace}/a")
    assert not grants.covers_write(f"{workspace}/b")


async def test_a_grant_to_read_does_not_cover_writing(
    harness: PermissionHandler, user: FakeUser, grants: Grants, workspace: Path
) -> None:
    user.answer = "allow_always"

    await harness.handle_request(asking(kind="read", locations=[{"path": f"{workspace}/a"}]))

    assert not grants.covers_write(f"{workspace}/a")


async def test_a_rejection_grants_nothing(
    harness: PermissionHandler, user: FakeUser, grants: Grants, workspace: Path
) -> None:
    for user.answer in ("reject_once", "reject_always", "cancelled"):
        await harness.handle_request(asking(kind="edit", locations=[{"path": f"{workspace}/a"}]))

    assert not grants.covers_write(f"{workspace}/a")


def test_a_grant_for_once_ends_with_the_turn() -> None:
    grants = Grants()
    grants.add(ToolReport(kind="edit"), "allow_once", paths=["/w/a"])
    grants.add(parse_tool_report({"kind": "execute", "title": "`ls`"}), "allow_once", paths=())
    grants.add(parse_tool_report({"kind": "execute", "title": "`pwd`"}), "allow_always", paths=())

    grants.end_turn()

    assert not grants.covers_write("/w/a")
    assert not grants.consume_command(frozenset({"ls"}))
    assert grants.consume_command(frozenset({"pwd"}))


def test_a_command_allowed_once_runs_once() -> None:
    grants = Grants()
    facts = parse_tool_report(
        {"kind": "execute", "rawInput": {"command": ["bash", "-lc", "ls -l "]}}
    )

    grants.add(facts, "allow_once", paths=())

    assert grants.consume_command(frozenset({"ls -l"}))
    assert not grants.consume_command(frozenset({"ls -l"}))


def test_one_grant_covers_one_command_under_all_its_texts() -> None:
    grants = Grants()
    asked = {"command": "make a", "cmd": "make b", "script": "make c"}
    facts = parse_tool_report({"kind": "execute", "title": "make d", "rawInput": asked})

    grants.add(facts, "allow_once", paths=())

    allowed = [line for line in ("make b", "make c", "make d", "make a") if _runs(grants, line)]
    assert allowed == ["make a"]
    assert not _runs(grants, "make a")


def _runs(grants: Grants, line: str) -> bool:
    return grants.consume_command(frozenset({line}))
