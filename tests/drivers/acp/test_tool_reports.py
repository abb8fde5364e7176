"""Reports of tool calls, and readers of fields; see acp/tool_reports.py and acp/fields.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.content import as_integer, as_name, as_number
from supervisor.drivers.acp.tool_reports import (
    ToolReport,
    parse_tool_report,
    shell_line,
    shorten_title,
)


def paths(**given_: object) -> tuple[str, ...] | None:
    return parse_tool_report({"rawInput": given_}).paths


@pytest.mark.parametrize(
    "name", ["path", "file_path", "filePath", "absolutePath", "notebook_path", "directory", "cwd"]
)
def test_an_input_named_like_a_path_is_a_path(name: str) -> None:
    assert paths(**{name: "a/b"}) == ("a/b",)


@pytest.mark.parametrize("name", ["pattern", "query", "profile", "content", "url", "description"])
def test_an_input_named_otherwise_is_not_a_path(name: str) -> None:
    assert paths(**{name: "a/b"}) == ()


@pytest.mark.parametrize("text", ["/etc/passwd", "~/.ssh", "../up", "a/../b", "file:///etc"])
def test_text_that_may_leave_a_folder_is_a_path(text: str) -> None:
    assert paths(query=text) == (text,)
    assert paths(deep={"er": [text]}) == (text,)


def test_a_url_is_not_a_path() -> None:
    assert paths(url="https://example.org/../x", path="http://a/b") == ()


def test_locations_and_diffs_are_paths() -> None:
    facts = parse_tool_report(
        {
            "locations": [{"path": "/w/b"}, {"path": 5}, None],
            "content": [{"type": "diff", "path": "/w/a"}, {"type": "content", "path": "/w/c"}],
        }
    )

    assert facts.paths == ("/w/a", "/w/b")


def test_a_merged_report_has_later_fields_and_all_paths() -> None:
    first = ToolReport(name="a", title="t", kind="read", input={"x": 1}, paths=("/1",))

    joined = first.merged(ToolReport(title="u", kind="edit", paths=("/2", "/1")))

    assert joined == ToolReport(
        name="a", title="u", kind="edit", input={"x": 1}, paths=("/1", "/2")
    )


def test_too_many_paths_are_unknown() -> None:
    unknown = ToolReport(paths=None)

    assert unknown.merged(ToolReport(paths=("/1",))).paths is None
    assert ToolReport(paths=("/1",)).merged(unknown).paths is None


def test_an_input_that_is_not_an_object_is_wrapped() -> None:
    assert parse_tool_report({"rawInput": [1]}).input == {"value": [1]}
    assert parse_tool_report({"rawInput": None}).input is None


def test_the_title_of_a_tool_goes_before_its_kind() -> None:
    facts = ToolReport(title="Run `ls`", kind="execute")

    assert facts.permission_name(Permissions()) == "Run `ls`"
    assert facts.permission_name(Permissions(tools=["execute"])) == "execute"


@given(st.text(max_size=300), st.text(max_size=300))
def test_different_long_titles_get_different_names(one: str, other: str) -> None:
    long_one, long_other = one * 2, other * 2

    assert (shorten_title(long_one) == shorten_title(long_other)) == (long_one == long_other)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["bash", "-c", "ls -l"], "ls -l"),
        (["/bin/zsh", "-lc", "ls"], "ls"),
        (["sh", "-e", "-c", "ls"], None),
        (["/project/evilsh", "-c", "ls"], None),
        (["ssh", "-c", "ls"], None),
        (["bash", "--rcfile", "x", "-c", "ls"], None),
        (["bash", "script.sh"], None),
        (["grep", "-c", "x"], None),
        (["bash", "-c"], None),
        ([], None),
    ],
)
def test_the_line_of_a_shell_command_is_found(words: list[str], line: str | None) -> None:
    assert shell_line(words) == line


def test_only_numbers_are_read_as_numbers() -> None:
    odd: list[Any] = [None, "1", True, -1, float("nan"), float("inf"), 2**60, 10**400, [1]]

    assert [as_number(value) for value in odd] == [None] * len(odd)
    assert (as_number(3), as_number(2.5), as_integer(3.0), as_integer(2.5)) == (3.0, 2.5, 3, None)


def test_a_name_is_not_blank_and_is_bounded() -> None:
    assert [as_name(value) for value in ("", "  ", "x" * 201, 5, None)] == [None] * 5
    assert as_name("half \ud83d") == "half \ufffd"


@pytest.mark.parametrize("word", ["terminal: touch x in /project", " file: write /etc/passwd"])
def test_an_agent_tool_name_with_a_reserved_prefix_is_escaped(word: str) -> None:
    facts = parse_tool_report({"title": word, "name": word})

    assert facts.title == facts.name == f"agent's {word}"
