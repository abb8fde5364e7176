"""Checks of single values: names are one line of printable text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from supervisor.core.errors import ConfigError, InvalidKey
from supervisor.core.ids import SessionKey
from supervisor.core.permissions import RIGHTS, Permissions, Right
from supervisor.core.validation import (
    CONTROL_CLASS,
    check_custom,
    check_key,
    check_name,
    check_permission_names,
    check_prompt,
    check_session_name,
    check_tags,
    make_session_name,
)

CONTROLS = ["\0", "\t", "\n", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u2029"]


@pytest.mark.parametrize("control", CONTROLS)
def test_a_name_with_a_control_character_is_refused(control: str) -> None:
    with pytest.raises(ConfigError, match=rf"name contains .*U\+{ord(control):04X}") as refusal:
        check_name("name", f"a{control}b")

    assert refusal.value.hint == "give one line of printable text"


@pytest.mark.parametrize("name", ["ann", "ann and bob", "Zoë", "日本", "👩‍🔧", "a\u200fb", "C:\\x"])
def test_a_name_may_have_every_printable_character(name: str) -> None:
    assert check_name("name", name) == name


@pytest.mark.parametrize("name", ["ann", "ann and bob", "日本", "s-1", "s_A", "sub_x", "a-"])
def test_a_session_name_that_means_one_session_is_kept(name: str) -> None:
    assert check_session_name(name) == make_session_name(name) == name


@pytest.mark.parametrize(
    ("name", "problem", "made"),
    [
        ("s_a1j6", "the form of an id", "s-a1j6"),
        ("s_", "the form of an id", "s-"),
        ("in_b_2", "the form of an id", "in-b_2"),
        ("req_0", "the form of an id", "req-0"),
        ("turn_0", "the form of an id", "turn-0"),
        ("call_0", "the form of an id", "call-0"),
        ("-", "standard input", None),
        ("-x", "begins with -", "x"),
        ("--", "begins with -", None),
        ("-\u00a0-s_a1", "begins with -", "s-a1"),
        ("/a", "contains /", "a"),
        ("a/b", "contains /", "a-b"),
        (" ann", "a blank", "ann"),
        ("ann\u00a0", "a blank", "ann"),
        ("a\u202eb", r"U\+202E", "ab"),
        ("a\u200bb", r"U\+200B", "ab"),
        ("s\u00ad_1", r"U\+00AD", "s-1"),
        ("a\u2028b", r"U\+2028", "a b"),
        ("a\nb", r"U\+000A", "a b"),
        ("\u200b", r"U\+200B", None),
    ],
)
def test_a_session_name_that_can_be_mistaken_is_refused(
    name: str, problem: str, made: str | None
) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_session_name(name)

    assert make_session_name(name) == made


def test_a_tag_with_a_line_break_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a tag contains"):
        check_tags(["fine", "two\nlines"])


def test_custom_data_has_control_characters_in_values_only() -> None:
    assert check_custom({"note": "two\nlines"}) == {"note": "two\nlines"}
    with pytest.raises(ConfigError, match=r"a name in custom contains"):
        check_custom({"no\nte": "x"})


def test_a_prompt_may_have_several_lines() -> None:
    assert check_prompt("one\n\ttwo") == "one\n\ttwo"


def test_a_key_or_its_text_is_returned_as_a_key() -> None:
    assert check_key("a:b:c") == check_key(SessionKey("a", "b", "c"))


@pytest.mark.parametrize("key", ["a:b:c\n", SessionKey("a", "b\x1b", "c")])
def test_a_key_with_a_control_character_is_refused(key: SessionKey | str) -> None:
    with pytest.raises(InvalidKey, match=r"control character"):
        check_key(key)


def test_a_stored_key_with_a_control_character_is_still_parsed() -> None:
    assert SessionKey.parse("a:b:c\nd").peer == "c\nd"


def test_the_class_of_control_characters_has_all_of_them() -> None:
    pattern = re.compile(f"[{CONTROL_CLASS}]")

    assert [one for one in CONTROLS if pattern.fullmatch(one) is None] == []


@pytest.mark.parametrize("name", ["/srv/a\x00b", "a\n", "\x1b]52;c;AAAA\x07", "a\u2028b"])
@pytest.mark.parametrize("right", RIGHTS)
def test_a_control_character_in_permissions_is_refused(right: Right, name: str) -> None:
    names: dict[str, Any] = {right: frozenset({"a", name})}
    with pytest.raises(ConfigError, match=rf"permissions\.{right} has a name that contains"):
        check_permission_names(Permissions(**names))
