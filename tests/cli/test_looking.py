"""Commands that look, on a file: what they show, to people and to programs."""

from pathlib import Path

import pytest
import trio

import supervisor
from tests.cli.calling import Caller
from tests.cli.conftest import Kept


def test_ps_lists_those_that_are_not_stopped(call: Caller, kept: Kept) -> None:
    shown = call("ps", "--state", kept.path)

    assert [line.split()[0] for line in shown.out.splitlines()] == [
        "ID",
        kept.anna,
        kept.parent,
        kept.child,
    ]
    assert "1 stopped session is not shown; --all shows them." in shown.err


def test_ps_lists_all_of_them_if_asked(call: Caller, kept: Kept) -> None:
    assert kept.over in call("ps", "--all", "--state", kept.path).out


def test_ps_shows_the_name_and_the_title(call: Caller, tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def fill() -> None:
        async with supervisor.open(path) as sup:
            await sup.create("echo", name="bob", title="the tests")

    trio.run(fill)
    assert call("ps", "--state", path).out.splitlines()[-1].endswith("bob: the tests")


def test_ps_shows_only_what_fits(call: Caller, kept: Kept) -> None:
    for option, value, found in (
        ("--tag", "post", kept.anna),
        ("--agent", "scripted", kept.parent),
        ("--badge", "stopped", kept.over),
        ("--text", "CHILD", kept.child),
    ):
        items = call("ps", option, value, "--state", kept.path, "--json").json["items"]
        assert [item["id"] for item in items] == [found]


def test_ps_says_that_there_are_more(call: Caller, kept: Kept) -> None:
    shown = call("ps", "--limit", 1, "--state", kept.path)

    assert len(shown.out.splitlines()) == 2
    assert "--limit shows more" in shown.err


def test_ps_has_the_whole_info_for_programs(call: Caller, kept: Kept) -> None:
    page = call("ps", "--state", kept.path, "--json").json

    assert page["next"] is None
    assert page["items"][0]["key"] == "echo:mail:anna"
    assert page["items"][0]["phase"] == "suspended"


def test_the_tree_has_children_below_their_parents(call: Caller, kept: Kept) -> None:
    shown = call("tree", "--state", kept.path).out.splitlines()

    assert shown[1].startswith(f"{kept.parent}  suspended  scripted  parent")
    assert shown[2].startswith(f"└─ {kept.child}  suspended  echo  child")


def test_the_tree_below_one_session_is_shown_alone(call: Caller, kept: Kept) -> None:
    (root,) = call("tree", "parent", "--state", kept.path, "--json").json

    assert [child["id"] for child in root["children"]] == [kept.child]


def test_show_has_what_is_known_of_a_session(call: Caller, kept: Kept) -> None:
    shown = call("show", kept.over, "--state", kept.path).out

    assert f"id       {kept.over}\n" in shown
    assert "stopped  user_cancelled\n" in shown
    assert call("show", kept.over, "--state", kept.path, "--json").json["turns"] == 1


def test_show_has_what_was_said_if_asked(call: Caller, kept: Kept) -> None:
    shown = call("show", "over", "--transcript", "--state", kept.path)
    data = call("show", "over", "--transcript", "--state", kept.path, "--json").json

    assert shown.out.count("tulips\n") == 3  # the title, the user and the agent
    assert [message["role"] for message in data["transcript"]] == ["user", "agent"]


@pytest.mark.parametrize("by", ["id", "name", "key", "the end of its id"])
def test_a_session_is_found_by_what_people_call_it(by: str, call: Caller, kept: Kept) -> None:
    called = {
        "id": kept.anna,
        "name": "anna",
        "key": "echo:mail:anna",
        "the end of its id": kept.anna[3:],
    }

    found = call("show", called[by], "--state", kept.path, "--json")

    assert found.json["id"] == kept.anna


def test_a_beginning_that_several_ids_have_is_refused_with_their_names(
    call: Caller, kept: Kept
) -> None:
    shown = call("show", "s_", "--state", kept.path)

    assert shown.code == 3
    assert "could be 4 sessions" in shown.err
    assert kept.anna in shown.err


def test_nobody_of_that_name_is_not_found(call: Caller, kept: Kept) -> None:
    shown = call("show", "nobody", "--state", kept.path, "--json")

    assert shown.code == 3
    assert '"code":"session_not_found"' in shown.err


def test_the_log_says_what_changed_in_words_and_not_as_json(call: Caller, kept: Kept) -> None:
    changes = call("log", "over", "--kind", "session_changed", "--state", kept.path).out

    assert "stopping.cause=user" in changes
    assert "{" not in changes


def test_the_log_has_a_line_for_each_record(call: Caller, kept: Kept) -> None:
    shown = call("log", "parent", "--state", kept.path).out.splitlines()
    records = call("log", "parent", "--state", kept.path, "--json").json_lines

    assert len(shown) == len(records)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert any(line.split()[2:] == ["tool_ended", "bash,", "completed,", "done"] for line in shown)


def test_the_log_can_be_of_one_kind_the_last_ones_or_those_after(call: Caller, kept: Kept) -> None:
    def seqs(*options: object) -> list[int]:
        said = call("log", "parent", *options, "--state", kept.path, "--json").json_lines
        return [record["seq"] for record in said]

    everything = seqs()
    assert seqs("--last", 2) == everything[-2:]
    assert seqs("--after", 3) == everything[3:]
    assert len(seqs("--kind", "tool_call", "--kind", "tool_ended")) == 2


def test_search_finds_what_was_said(call: Caller, kept: Kept) -> None:
    shown = call("search", "tulips", "--state", kept.path)

    assert shown.out.count(kept.over) == 2
    assert "    [tulips]\n" in shown.out
    hits = call("search", "tulips", "--session", "over", "--state", kept.path, "--json").json
    assert [hit["kind"] for hit in hits["items"]] == ["agent_text", "user_text"]


def test_search_that_finds_nothing_says_so(call: Caller, kept: Kept) -> None:
    assert "Nobody said that." in call("search", "daisies", "--state", kept.path).err


@pytest.mark.parametrize(
    "command", ["ps --all", "tree", "show anna -t", "log anna", "search roses", "export anna"]
)
def test_what_an_agent_wrote_brings_no_control_bytes(
    command: str, call: Caller, kept: Kept
) -> None:
    for options in ((), ("--json",)):
        shown = call(*command.split(), "--state", kept.path, *options)

        assert shown.code == 0
        assert not [letter for letter in shown.out if letter < " " and letter != "\n"]
        assert not {"\x9b", "\u202e", "\x7f"} & set(shown.out)


# The file itself ---------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_not_made(call: Caller, tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"

    shown = call("ps", "--state", missing)

    assert shown.code == 3
    assert f"error: there is no file {missing}\n" in shown.err
    assert not missing.exists()


def test_a_file_that_is_no_store_is_refused(call: Caller, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("hello, I am a letter to my aunt, and long enough to have a header" * 10)

    shown = call("ps", "--state", other)

    assert shown.code == 1
    assert "is no store of ours" in shown.err


def test_looking_changes_nothing(call: Caller, kept: Kept) -> None:
    before = kept.path.read_bytes()

    for command in ("ps", "tree", "show anna", "log anna", "search roses", "export anna"):
        assert call(*command.split(), "--state", kept.path).code == 0

    assert kept.path.read_bytes() == before


def test_a_file_can_be_looked_at_while_a_supervisor_has_it_open(call: Caller, kept: Kept) -> None:
    async def main() -> int:
        async with supervisor.open(kept.path) as sup:
            await sup.create("echo", name="newcomer")
            return await trio.to_thread.run_sync(
                lambda: call("show", "newcomer", "--state", kept.path).code
            )

    assert trio.run(main) == 0
