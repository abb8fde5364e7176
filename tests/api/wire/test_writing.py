"""Things as JSON, and back as they were."""

from __future__ import annotations

import sys
from typing import Any

import attrs
import orjson
import pytest

from supervisor import (
    Info,
    InterruptReport,
    Limits,
    Message,
    Node,
    Page,
    Permissions,
    Record,
    Session,
    SessionId,
    Stats,
    Supervisor,
    Usage,
    Why,
)
from supervisor.api.routes import OPERATIONS
from supervisor.api.wire import decode, encode, encode_page
from supervisor.api.wire.kinds import shape_of
from tests.sessions.cast import Player, Scene, records


def back(thing: Any) -> object:  # noqa: ANN401 - of any class
    return decode(type(thing), orjson.loads(encode(thing)))


async def test_all_that_is_known_of_a_session_comes_back_as_it_was(
    sup: Supervisor, session: Session, scene: Scene
) -> None:
    await session.set(tags=["b", "a"], custom={"k": "v"}, limits={"turns": 5})
    for thing in (
        await session.info(),
        await session.why(),
        await sup.stats(),
        *await records(session),
        *await session.history(),
        *await session.transcript(),
        await session.send("second"),
        InterruptReport("turn", matched=1, ladder_step="ask"),
        Permissions(tools=frozenset({"b", "a"}), mode="deny_all"),
        Limits(cost=1.5),
    ):
        assert back(thing) == thing


async def test_a_tree_comes_back_with_those_below(
    sup: Supervisor, session: Session, player: Player
) -> None:
    child = await session.spawn("player", "go")
    await child.spawn("player", "go")
    tree = await sup.tree()

    (made,) = [decode(Node, one) for one in orjson.loads(encode(tree))]

    assert made == tree[0]
    assert made.children[0].children[0].parent == child.id


async def test_no_tree_is_too_deep_to_be_written(session: Session) -> None:
    fields = {field.name: getattr(await session.info(), field.name) for field in attrs.fields(Info)}
    tree = Node(**{**fields, "children": ()})
    for _ in range(sys.getrecursionlimit() * 2):
        tree = Node(**{**fields, "children": (tree, tree) if not tree.children else (tree,)})

    assert encode(tree).count(b'"children"') == sys.getrecursionlimit() * 2 + 2


def test_no_body_is_too_deep_to_be_written() -> None:
    deep: Any = "x"
    for _ in range(253):
        deep = [deep]
    record = Record(SessionId("s_1"), 1, 0.0, None, "plan", {"entries": deep})

    assert b'[["x"]]' in encode(Page((record,), None))


async def test_a_page_is_written_as_its_items_and_what_follows() -> None:
    page = await encode_page([Message("user", "a", 1.0)] * 250, "250")

    assert len(orjson.loads(page)["items"]) == 250
    assert orjson.loads(page)["next"] == "250"
    assert orjson.loads(await encode_page([], None)) == {"items": [], "next": None}


def test_what_has_no_form_on_the_wire_is_a_defect() -> None:
    with pytest.raises(TypeError, match="serializable"):
        encode(object())


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_answer_has_a_shape(operation: Any) -> None:  # noqa: ANN401 - an Operation
    shape_of(operation.answer)


def test_the_classes_of_the_surface_have_shapes() -> None:
    for kind in (Info, Node, Stats, Why, Record, Page[Info]):
        shape_of(kind)


def test_what_is_the_same_in_many_is_written_as_each_of_them_is() -> None:
    kinds = [Limits(), Limits(cost=1.5), Permissions(tools=["b", "a"]), Usage(1, 2, 0.5)]

    for thing in [*kinds, *kinds]:
        assert decode(type(thing), orjson.loads(encode(thing))) == thing
