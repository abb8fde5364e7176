"""What an agent says about a tool call; see acp/tools.py and acp/reading.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.news.tools import ToolFacts, facts_of, line_for_a_shell, short
from supervisor.drivers.acp.reading import as_name, as_number, as_whole


def paths(**given_: object) -> tuple[str, ...] | None:
    return facts_of({"rawInput": given_}).paths


@pytest.mark.parametrize(
    "name", ["path", "file_path", "filePath", "absolutePath", "notebook_path", "directory", "cwd"]
)
def test_an_input_with_the_name_of_a_path_is_one(name: str) -> None:
    assert paths(**{name: "a/b"}) == ("a/b",)


@pytest.mark.parametrize("name", ["pattern", "query", "profile", "content", "url", "description"])
def test_another_input_is_none(name: str) -> None:
    assert paths(**{name: "a/b"}) == ()


@pytest.mark.parametrize("text", ["/etc/passwd", "~/.ssh", "../up", "a/../b", "file:///etc"])
def test_what_may_lead_out_is_a_path_whatever_it_is_called(text: str) -> None:
    assert paths(query=text) == (text,)
    assert paths(deep={"er": [text]}) == (text,)


def test_an_address_is_no_path() -> None:
    assert paths(url="https://example.org/../x", path="http://a/b") == ()


def test_places_and_diffs_are_paths() -> None:
    facts = facts_of(
        {
            "locations": [{"path": "/w/b"}, {"path": 5}, None],
            "content": [{"type": "diff", "path": "/w/a"}, {"type": "content", "path": "/w/c"}],
        }
    )

    assert facts.paths == ("/w/a", "/w/b")


def test_what_was_said_later_counts_and_no_path_is_forgotten() -> None:
    first = ToolFacts(name="a", title="t", kind="read", input={"x": 1}, paths=("/1",))

    joined = first.joined(ToolFacts(title="u", kind="edit", paths=("/2", "/1")))

    assert joined == ToolFacts(name="a", title="u", kind="edit", input={"x": 1}, paths=("/1", "/2"))


def test_paths_that_nobody_could_count_stay_unknown() -> None:
    unknown = ToolFacts(paths=None)

    assert unknown.joined(ToolFacts(paths=("/1",))).paths is None
    assert ToolFacts(paths=("/1",)).joined(unknown).paths is None


def test_input_that_is_no_object_is_put_into_one() -> None:
    assert facts_of({"rawInput": [1]}).input == {"value": [1]}
    assert facts_of({"rawInput": None}).input is None


def test_a_tool_is_known_by_its_title_rather_than_its_kind() -> None:
    facts = ToolFacts(title="Run `ls`", kind="execute")

    assert facts.tool(Permissions()) == "Run `ls`"
    assert facts.tool(Permissions(tools=["execute"])) == "execute"


@given(st.text(max_size=300), st.text(max_size=300))
def test_two_titles_never_become_the_same_name(one: str, other: str) -> None:
    long_one, long_other = one * 2, other * 2

    assert (short(long_one) == short(long_other)) == (long_one == long_other)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["bash", "-c", "ls -l"], "ls -l"),
        (["/bin/zsh", "-lc", "ls"], "ls"),
        (["sh", "-e", "-c", "ls"], None),
        (["/work/evilsh", "-c", "ls"], None),
        (["ssh", "-c", "ls"], None),
        (["bash", "--rcfile", "x", "-c", "ls"], None),
        (["bash", "script.sh"], None),
        (["grep", "-c", "x"], None),
        (["bash", "-c"], None),
        ([], None),
    ],
)
def test_the_line_for_a_shell_is_found(words: list[str], line: str | None) -> None:
    assert line_for_a_shell(words) == line


def test_numbers_are_taken_as_numbers_and_nothing_else() -> None:
    odd: list[Any] = [None, "1", True, -1, float("nan"), float("inf"), 2**60, 10**400, [1]]

    assert [as_number(value) for value in odd] == [None] * len(odd)
    assert (as_number(3), as_number(2.5), as_whole(3.0), as_whole(2.5)) == (3.0, 2.5, 3, None)


def test_a_name_has_something_in_it_and_an_end() -> None:
    assert [as_name(value) for value in ("", "  ", "x" * 201, 5, None)] == [None] * 5
    assert as_name("half \ud83d") == "half \ufffd"


@pytest.mark.parametrize("word", ["terminal: touch x in /work", " file: write /etc/passwd"])
def test_no_agent_takes_the_name_of_what_is_ours(word: str) -> None:
    facts = facts_of({"title": word, "name": word})

    assert facts.title == facts.name == f"agent's {word}"
