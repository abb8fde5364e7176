"""`understudy tree` and `understudy top` with a tree that is deeper than the stack of Python."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from supervisor import Node
from supervisor.cli.commands import ps
from supervisor.cli.screens.top_layout import View, lay_out
from supervisor.cli.screens.top_order import Entry
from supervisor.client.deep_json import parse_json
from tests.support.cli_runner import Caller
from tests.support.deep_trees import DEPTH, deep_tree
from tests.support.row_builders import make_row


@pytest.fixture(autouse=True)
def tree(monkeypatch: pytest.MonkeyPatch) -> Node:
    root = deep_tree()

    class FakeTarget:
        async def tree(self, _: str | None) -> tuple[Node, ...]:
            return (root, root)

    @asynccontextmanager
    async def open_fake(*_: object, **__: object) -> AsyncIterator[FakeTarget]:
        yield FakeTarget()

    monkeypatch.setattr(ps, "open_target", open_fake)
    return root


def test_a_deep_tree_is_shown_as_lines(call: Caller) -> None:
    head, *shown = call("tree").out.splitlines()

    assert head.startswith("NAME ")
    assert len(shown) == 2 * (DEPTH + 1)
    assert shown[0].startswith("s_0 ")
    assert shown[2].startswith("   └─ s_2 ")
    assert shown[DEPTH].lstrip().startswith(f"└─ s_{DEPTH} ")


def test_a_deep_tree_is_shown_as_json(call: Caller) -> None:
    roots = parse_json(call("tree", "--json").out.encode())["items"]

    assert len(roots) == 2
    assert roots[1]["children"][0]["children"][0]["id"] == "s_2"


def test_a_deep_tree_is_listed_on_the_screen_of_top() -> None:
    rows = [
        make_row(str(depth), parent=f"s_{depth - 1}" if depth else None, depth=depth)
        for depth in range(DEPTH)
    ]
    entries: dict[str, Entry] = {row.id: Entry(row, "idle", 0.0) for row in rows}

    lines = lay_out(entries, entries.keys(), View(grouping="tree")).lines

    assert [line.key for line in lines] == [row.id for row in rows]
