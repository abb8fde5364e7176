"""An agent's question, and the way back of the answer; see acp/services/permissions.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.permissions import Permissions
from supervisor.core.session import Decision
from supervisor.drivers.acp.news.tools import ToolFacts, facts_of
from supervisor.drivers.acp.rpc.messages import INVALID_PARAMS, RpcError
from supervisor.drivers.acp.services.asking import Answer, Question
from supervisor.drivers.acp.services.grants import Grants
from supervisor.drivers.acp.services.permissions import PermissionDesk, parse_request
from tests.drivers.acp.services.people import Person, refusal
from tests.drivers.office import StandInOffice

KINDS: tuple[Decision, ...] = get_args(Decision)


def options(*kinds: str) -> list[dict[str, Any]]:
    return [
        {"optionId": f"o{place}", "name": kind, "kind": kind} for place, kind in enumerate(kinds)
    ]


def asking(*kinds: str, **call: object) -> dict[str, Any]:
    return {"toolCall": {"toolCallId": "c1", **call}, "options": options(*(kinds or KINDS))}


def nothing_known(_: object) -> ToolFacts:
    return ToolFacts()


@pytest.fixture
def desk(
    office: StandInOffice, person: Person, grants: Grants, limiter: trio.CapacityLimiter
) -> PermissionDesk:
    return PermissionDesk(
        office, ask=person.ask, grants=grants, known=nothing_known, limiter=limiter
    )


async def question(desk: PermissionDesk, person: Person, **call: object) -> Question:
    await desk.request(asking(**call))
    return person.asked[-1]


# The way back -----------------------------------------------------------------------------


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
def test_an_option_is_chosen_by_its_kind_and_never_more_than_was_decided(
    offered: tuple[str, ...], decided: Answer, chosen: str | None
) -> None:
    request = parse_request(asking(*offered), nothing_known)

    expected: dict[str, Any] = {"outcome": "cancelled"}
    if chosen is not None:
        expected = {"outcome": "selected", "optionId": f"o{offered.index(chosen)}"}
    assert request.result(decided) == {"outcome": expected}


def test_of_several_options_of_one_kind_the_first_counts() -> None:
    request = parse_request(asking("allow_once", "allow_once", "reject_once"), nothing_known)

    assert request.options == {"allow_once": "o0", "reject_once": "o2"}


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), st.sampled_from(KINDS))
def test_a_no_never_becomes_a_yes_and_once_never_always(
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
async def test_a_request_that_makes_no_sense_is_refused(
    desk: PermissionDesk, person: Person, params: object
) -> None:
    assert (await refusal(desk.request(params))).code == INVALID_PARAMS
    assert person.asked == []


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
def test_every_request_is_understood_or_refused(call: object, offered: object) -> None:
    for params in (call, {"toolCall": call, "options": offered}):
        try:
            request = parse_request(params, nothing_known)
        except RpcError:
            continue
        assert request.options


# What is asked ----------------------------------------------------------------------------


async def test_what_is_asked_is_what_the_agent_says(desk: PermissionDesk, person: Person) -> None:
    asked = await question(
        desk, person, title="Run `ls`", kind="execute", rawInput={"command": "ls"}
    )

    assert (asked.tool, asked.question, asked.kind) == ("Run `ls`", "Run `ls`", "execute")
    assert asked.input == {"command": "ls"}
    assert asked.options == KINDS


async def test_only_what_the_agent_offers_can_be_decided(
    desk: PermissionDesk, person: Person
) -> None:
    await desk.request(asking("reject_once", "allow_once", "allow_once", "other"))

    assert person.asked[0].options == ("allow_once", "reject_once")


async def test_what_was_said_of_the_call_before_counts_too(
    office: StandInOffice, person: Person, grants: Grants, limiter: trio.CapacityLimiter
) -> None:
    known = facts_of({"title": "Edit a", "kind": "edit", "rawInput": {"path": "a"}})
    desk = PermissionDesk(
        office, ask=person.ask, grants=grants, known=lambda _: known, limiter=limiter
    )

    asked = await question(desk, person)

    assert (asked.question, asked.kind, asked.input) == ("Edit a", "edit", {"path": "a"})


async def test_a_list_of_tools_knows_a_tool_by_name_kind_or_title(
    office: StandInOffice, desk: PermissionDesk, person: Person
) -> None:
    for tools, known_as in (
        (None, "Bash"),
        (["Bash", "execute"], "Bash"),
        (["execute"], "execute"),
        (["Run ls"], "Run ls"),
        (["other"], "Bash"),
    ):
        office.permissions = Permissions(tools=tools)
        asked = await question(desk, person, title="Run ls", kind="execute", name="Bash")
        assert asked.tool == known_as


async def test_titles_that_are_not_the_same_are_not_the_same_tool(
    desk: PermissionDesk, person: Person
) -> None:
    first = await question(desk, person, title="rm " + "x" * 500 + "a")
    second = await question(desk, person, title="rm " + "x" * 500 + "b")

    assert first.tool != second.tool
    assert len(first.tool) <= 200


# Inside the workspace ---------------------------------------------------------------------


async def inside(desk: PermissionDesk, person: Person, **call: object) -> bool:
    return (await question(desk, person, kind="read", **call)).inside_workspace


async def test_a_path_in_the_workspace_is_inside(
    desk: PermissionDesk, person: Person, workspace: Path
) -> None:
    path = f"{workspace}/a"

    assert await inside(desk, person, locations=[{"path": path}])
    assert await inside(desk, person, rawInput={"file_path": path})
    assert await inside(desk, person, rawInput={"filePath": "src/a.py", "limit": 5})
    assert await inside(desk, person, rawInput={"paths": ["a", "b"], "pattern": "def .*"})


async def test_all_paths_have_to_be_inside(
    desk: PermissionDesk, person: Person, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "out").symlink_to(tmp_path)
    good = [{"path": f"{workspace}/a"}]

    assert not await inside(desk, person, locations=[*good, {"path": "/etc/passwd"}])
    assert not await inside(desk, person, locations=good, rawInput={"path": "/etc/passwd"})
    assert not await inside(desk, person, locations=good, rawInput={"x": {"y": ["../../z"]}})
    assert not await inside(desk, person, locations=good, rawInput={"x": "~/.ssh/id"})
    assert not await inside(desk, person, locations=[{"path": f"{workspace}/out/secret"}])


async def test_without_any_path_nothing_is_inside(desk: PermissionDesk, person: Person) -> None:
    assert not await inside(desk, person)
    assert not await inside(desk, person, rawInput={"query": "weather", "profile": "mine"})
    assert not await inside(desk, person, rawInput={"url": "https://example.org/path"})


async def test_what_is_too_much_to_look_through_is_not_inside(
    desk: PermissionDesk, person: Person
) -> None:
    deep: Any = "a"
    for _ in range(50):
        deep = {"path": deep}

    assert not await inside(desk, person, rawInput={"path": "a", "deep": deep})
    assert not await inside(desk, person, rawInput={"path": "a", "many": ["x"] * 5000})
    assert not await inside(desk, person, rawInput={"paths": [f"a{n}" for n in range(500)]})


async def test_without_a_workspace_nothing_is_inside(
    office: StandInOffice, desk: PermissionDesk, person: Person
) -> None:
    office.workspace = None

    assert not await inside(desk, person, rawInput={"path": "a"})


# What it leaves behind --------------------------------------------------------------------


async def test_a_yes_covers_the_files_it_was_about(
    desk: PermissionDesk, person: Person, grants: Grants, workspace: Path
) -> None:
    person.answer = "allow_once"
    diff = {"type": "diff", "path": f"{workspace}/a", "oldText": "", "newText": "x"}

    answer = await desk.request(asking(kind="edit", content=[diff]))

    assert answer == {"outcome": {"outcome": "selected", "optionId": "o0"}}
    assert grants.covers_write(f"{workspace}/a")
    assert not grants.covers_write(f"{workspace}/b")


async def test_a_yes_to_reading_covers_no_writing(
    desk: PermissionDesk, person: Person, grants: Grants, workspace: Path
) -> None:
    person.answer = "allow_always"

    await desk.request(asking(kind="read", locations=[{"path": f"{workspace}/a"}]))

    assert not grants.covers_write(f"{workspace}/a")


async def test_a_no_covers_nothing(
    desk: PermissionDesk, person: Person, grants: Grants, workspace: Path
) -> None:
    for person.answer in ("reject_once", "reject_always", "cancelled"):
        await desk.request(asking(kind="edit", locations=[{"path": f"{workspace}/a"}]))

    assert not grants.covers_write(f"{workspace}/a")


def test_what_was_allowed_for_once_ends_with_the_turn() -> None:
    grants = Grants()
    grants.add(ToolFacts(kind="edit"), "allow_once", places=["/w/a"])
    grants.add(facts_of({"kind": "execute", "title": "`ls`"}), "allow_once", places=())
    grants.add(facts_of({"kind": "execute", "title": "`pwd`"}), "allow_always", places=())

    grants.end_turn()

    assert not grants.covers_write("/w/a")
    assert not grants.take_command(frozenset({"ls"}))
    assert grants.take_command(frozenset({"pwd"}))


def test_a_command_that_was_allowed_once_runs_once() -> None:
    grants = Grants()
    facts = facts_of({"kind": "execute", "rawInput": {"command": ["bash", "-lc", "ls -l "]}})

    grants.add(facts, "allow_once", places=())

    assert grants.take_command(frozenset({"ls -l"}))
    assert not grants.take_command(frozenset({"ls -l"}))


def test_one_yes_is_for_one_command_however_many_were_named() -> None:
    grants = Grants()
    asked = {"command": "make a", "cmd": "make b", "script": "make c"}
    facts = facts_of({"kind": "execute", "title": "make d", "rawInput": asked})

    grants.add(facts, "allow_once", places=())

    allowed = [line for line in ("make b", "make c", "make d", "make a") if _runs(grants, line)]
    assert allowed == ["make a"]
    assert not _runs(grants, "make a")


def _runs(grants: Grants, line: str) -> bool:
    return grants.take_command(frozenset({line}))
