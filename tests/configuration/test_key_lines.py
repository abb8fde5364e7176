"""A value's line is the line on which its key stands, or none; never another."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.configuration.toml_file import MAX_STATEMENT_LINES, key_lines

PAGE = '''\
# a = 0
top = 1

[settings]   # with a comment
queue_cap = 3
limits.max_depth = 2
"odd name" = """
queue_cap = 9
[fake]
""" # the end
list = [
  1,
  2, # two
]
after = { x = 1, y.z = 2 }
[agents."a.b".env]
A = "x"
[[many]]
b = 1
'''


def test_key_lines_finds_every_key_of_a_text() -> None:
    lines = key_lines(PAGE)

    assert lines["top",] == 2
    assert lines["settings",] == 4
    assert lines["settings", "queue_cap"] == 5
    assert lines["settings", "limits", "max_depth"] == 6
    assert lines["settings", "odd name"] == 7
    assert lines["settings", "list"] == 11
    assert lines["settings", "after", "y", "z"] == 15
    assert lines["agents", "a.b", "env", "A"] == 17
    assert ("fake",) not in lines


def test_windows_line_ends_are_counted_alike() -> None:
    assert key_lines(PAGE.replace("\n", "\r\n")) == key_lines(PAGE)


def test_after_a_too_long_statement_no_lines_are_reported() -> None:
    lines = key_lines("a = 1\nb = [\n" + "1,\n" * MAX_STATEMENT_LINES + "]\nc = 1")

    assert lines == {("a",): 1}


names = st.text(st.sampled_from("ab.é\" '"), min_size=1, max_size=3)
values = st.recursive(
    st.integers(0, 9) | st.text(st.sampled_from("ab\n\"'\\[]=#"), max_size=8),
    lambda inside: st.lists(inside, max_size=3),
    max_leaves=4,
)


def written(value: object, newline: str) -> str:
    if isinstance(value, list):
        return f"[{newline}" + f",{newline}".join(written(one, newline) for one in value) + "]"
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"""\n{text}"""'
    return str(value)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '\\"') + '"'


@given(
    st.dictionaries(names, st.dictionaries(names, values, max_size=3), max_size=3),
    st.sampled_from(["", "\n", " # x\n"]),
)
def test_every_key_is_found_on_the_line_where_it_was_written(
    tables: dict[str, dict[str, Any]], newline: str
) -> None:
    text, expected = "", dict[tuple[str, ...], int]()
    for table, keys in tables.items():
        expected[table,] = text.count("\n") + 1
        text += f"[{quoted(table)}]\n"
        for key, value in keys.items():
            expected[table, key] = text.count("\n") + 1
            text += f"{quoted(key)} = {written(value, newline)}\n"

    assert tomllib.loads(text) == tables
    assert key_lines(text) == expected
