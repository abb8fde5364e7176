"""Commands that read a store file: output for people and for programs."""

import json
import re
from pathlib import Path

import pytest
import trio

import supervisor
from tests.cli.conftest import Kept
from tests.support.cli_runner import Caller


def test_ps_lists_sessions_that_are_not_stopped(call: Caller, kept: Kept) -> None:
    shown = call("ps", "--state", kept.path)

    assert [line.split()[0] for line in shown.out.splitlines()] == [
        "NAME",
        "child",
        "parent",
        "anna",
    ]
    ids = call("ps", "-q", "--state", kept.path).out.split()
    assert ids == [kept.child, kept.parent, kept.anna]
    assert "1 stopped session is not shown; --all shows it." in shown.err


def test_ps_all_lists_stopped_sessions(call: Caller, kept: Kept) -> None:
    assert kept.over in call("ps", "--all", "-q", "--state", kept.path).out


def test_ps_shows_the_name_and_the_title(call: Caller, tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def fill() -> None:
        async with supervisor.open(path) as sup:
            await sup.create("echo", name="bob", title="the tests")

    trio.run(fill)
    shown = call("ps", "--state", path).out.splitlines()[-1]
    assert (shown.split()[0], shown.endswith("the tests")) == ("bob", True)


def test_ps_shows_only_matching_sessions(call: Caller, kept: Kept) -> None:
    for option, value, found in (
        ("--tag", "post", kept.anna),
        ("--agent", "scripted", kept.parent),
        ("--badge", "stopped", kept.over),
        ("--text", "CHILD", kept.child),
    ):
        items = call("ps", option, value, "--state", kept.path, "--json").json["items"]
        assert [item["id"] for item in items] == [found]


def test_ps_notes_that_there_are_more_sessions(call: Caller, kept: Kept) -> None:
    shown = call("ps", "--limit", 1, "--state", kept.path)

    assert len(shown.out.splitlines()) == 2
    assert "--limit shows more" in shown.err


def test_the_next_of_a_cut_list_continues_it(call: Caller, kept: Kept) -> None:
    listed = ("ps", "--limit", 2, "--state", kept.path)
    first = call(*listed, "--json").json
    second = call(*listed, "--cursor", first["next"], "--json").json

    found = [info["id"] for page in (first, second) for info in page["items"]]
    assert (found, second["next"]) == ([kept.child, kept.parent, kept.anna], None)
    assert call("ps", "--cursor", "x", "--state", kept.path).code == 2


def test_ps_json_has_the_whole_info(call: Caller, kept: Kept) -> None:
    page = call("ps", "--state", kept.path, "--json").json

    assert page["next"] is None
    assert page["items"][-1]["key"] == "echo:mail:anna"
    assert page["items"][-1]["phase"] == "suspended"
    assert page["items"][-1]["last_outcome"]["outcome"] == "completed"
    assert page["items"][-1]["attention"] == []


def test_tree_shows_children_below_their_parents(call: Caller, kept: Kept) -> None:
    shown = call("tree", "--state", kept.path).out.splitlines()

    columns = [line.split()[:5] for line in shown]
    assert columns[0] == ["NAME", "ID", "STATE", "AGENT", "ABOUT"]
    assert columns[2][:4] == ["parent", kept.parent[:6], "finished", "scripted"]
    assert columns[3] == ["└─", "child", kept.child[:6], "finished", "echo"]
    assert len({line.index("finished") for line in shown[1:]}) == 1


def test_tree_shows_the_subtree_of_one_session(call: Caller, kept: Kept) -> None:
    (root,) = call("tree", "parent", "--state", kept.path, "--json").json["items"]

    assert [child["id"] for child in root["children"]] == [kept.child]


def test_show_prints_the_session_fields(call: Caller, kept: Kept) -> None:
    shown = call("show", kept.over, "--state", kept.path).out

    assert f"id         {kept.over}\n" in shown
    assert "stopped    by a user (user_cancelled)\n" in shown
    assert "last turn  completed (" in shown
    assert call("show", kept.over, "--state", kept.path, "--json").json["turns"] == 1


def test_show_prints_the_name_of_the_parent_beside_its_id(call: Caller, kept: Kept) -> None:
    assert f"below      parent ({kept.parent})" in call("show", "child", "--state", kept.path).out


def test_show_transcript_prints_the_messages(call: Caller, kept: Kept) -> None:
    shown = call("show", "over", "--transcript", "--state", kept.path)
    data = call("show", "over", "--transcript", "--state", kept.path, "--json").json

    assert shown.out.count("tulips\n") == 3  # the title, the user and the agent
    assert [message["role"] for message in data["transcript"]] == ["user", "agent"]


@pytest.mark.parametrize("by", ["id", "name", "key", "the end of its id"])
def test_a_session_is_found_by_id_part_name_or_key(by: str, call: Caller, kept: Kept) -> None:
    called = {
        "id": kept.anna,
        "name": "anna",
        "key": "echo:mail:anna",
        "the end of its id": kept.anna[3:],
    }

    found = call("show", called[by], "--state", kept.path, "--json")

    assert found.json["id"] == kept.anna


@pytest.fixture
def twins(tmp_path: Path) -> Path:
    """A file with two trees, in each of which a child is called `tests`."""
    path = tmp_path / "twins.db"

    async def fill() -> None:
        async with supervisor.open(path) as sup:
            for name in ("left", "right"):
                root = await sup.create("echo", name=name)
                await (await root.spawn("echo", "hi", name="tests")).wait()

    trio.run(fill)
    return path


def test_an_ambiguous_name_is_wrong_usage_and_lists_the_candidates(
    call: Caller, twins: Path
) -> None:
    shown = call("show", "tests", "--state", twins, "--json")

    assert shown.code == 2
    error = json.loads(shown.err)["error"]
    assert error["code"] == "ambiguous_id"
    assert [one["name"] for one in error["candidates"]] == ["tests", "tests"]


def test_a_path_of_names_tells_children_apart(call: Caller, twins: Path) -> None:
    left = call("show", "left", "--state", twins, "--json").json
    child = call("show", "left/tests", "--state", twins, "--json").json

    assert (child["name"], child["parent"]) == ("tests", left["id"])
    assert call("show", f"{left['id']}/tests", "--state", twins, "--json").json == child
    assert call("show", "left/nobody", "--state", twins).code == 3


def test_an_unknown_name_exits_with_not_found(call: Caller, kept: Kept) -> None:
    shown = call("show", "nobody", "--state", kept.path, "--json")

    assert shown.code == 3
    assert '"code":"session_not_found"' in shown.err


def test_log_prints_changes_as_text(call: Caller, kept: Kept) -> None:
    changes = call("log", "over", "--kind", "session_changed", "--state", kept.path).out

    assert "stopping.cause=user" in changes
    assert "{" not in changes


def test_log_prints_a_line_for_each_record(call: Caller, kept: Kept) -> None:
    shown = call("log", "parent", "--records", "--state", kept.path).out.splitlines()
    records = call("log", "parent", "--state", kept.path, "--json").json_lines

    assert len(shown) == len(records)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert any(line.split()[2:] == ["tool_ended", "bash,", "completed,", "done"] for line in shown)


def test_log_prints_text_that_flows(call: Caller, kept: Kept) -> None:
    shown = call("log", "parent", "--state", kept.path).out

    assert re.search(r"\n  think deep\nhello\n✓ bash  \d+ ms  → done\n~ deep\n", shown)
    assert re.search(r"↳ child \(echo\)  completed  \S+  water  → water\n\Z", shown)
    assert call("log", "parent", "--text", "--json", "--state", kept.path).code == 2


def test_log_filters_by_kind_last_and_after(call: Caller, kept: Kept) -> None:
    def seqs(*options: object) -> list[int]:
        said = call("log", "parent", *options, "--state", kept.path, "--json").json_lines
        return [record["seq"] for record in said]

    everything = seqs()
    assert seqs("--last", 2) == everything[-2:]
    assert seqs("--after", 3) == everything[3:]
    assert len(seqs("--kind", "tool_call", "--kind", "tool_ended")) == 2


def test_search_finds_messages(call: Caller, kept: Kept) -> None:
    shown = call("search", "tulips", "--state", kept.path)

    assert shown.out.count(f"over ({kept.over})  ") == 2
    assert "    [tulips]\n" in shown.out
    hits = call("search", "tulips", "--session", "over", "--state", kept.path, "--json").json
    assert [hit["kind"] for hit in hits["items"]] == ["agent_text", "user_text"]


def test_search_without_hits_prints_a_note(call: Caller, kept: Kept) -> None:
    assert "No message contains these words." in call("search", "daisies", "--state", kept.path).err


@pytest.mark.parametrize(
    "command", ["ps --all", "tree", "show anna -t", "log anna", "search roses", "export anna"]
)
def test_agent_text_is_printed_without_control_characters(
    command: str, call: Caller, kept: Kept
) -> None:
    for options in ((), ("--json",)):
        shown = call(*command.split(), "--state", kept.path, *options)

        assert shown.code == 0
        assert not [letter for letter in shown.out if letter < " " and letter != "\n"]
        assert not {"\x9b", "\u202e", "\x7f"} & set(shown.out)


# The file itself ---------------------------------------------------------------------------------


def test_reading_a_missing_file_does_not_create_it(call: Caller, tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"

    shown = call("ps", "--state", missing)

    assert shown.code == 3
    assert f"error: file not found: {missing}\n" in shown.err
    assert not missing.exists()


def test_a_file_that_is_not_a_store_is_refused(call: Caller, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("hello, I am a letter to my aunt, and long enough to have a header" * 10)

    shown = call("ps", "--state", other)

    assert shown.code == 1
    assert "is not an understudy store" in shown.err


def test_reading_commands_change_nothing(call: Caller, kept: Kept) -> None:
    before = kept.path.read_bytes()

    for command in ("ps", "tree", "show anna", "log anna", "search roses", "export anna"):
        assert call(*command.split(), "--state", kept.path).code == 0

    assert kept.path.read_bytes() == before


def test_a_file_can_be_read_while_a_supervisor_has_it_open(call: Caller, kept: Kept) -> None:
    async def main() -> int:
        async with supervisor.open(kept.path) as sup:
            await sup.create("echo", name="newcomer")
            return await trio.to_thread.run_sync(
                lambda: call("show", "newcomer", "--state", kept.path).code
            )

    assert trio.run(main) == 0


def test_log_refuses_a_kind_that_does_not_exist(call: Caller, kept: Kept) -> None:
    done = call("log", "over", "--kind", "turn_end", "--state", kept.path)

    assert done.code == 2
    assert "Did you mean turn_ended?" in done.err
