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
from supervisor.api.encode import encode, encode_page
from supervisor.api.routes import OPERATIONS
from supervisor.decode import decode
from supervisor.decode.strict import make_converter
from tests.support.fake_agents import AgentRun, FakeAgent, records


def back(thing: Any) -> object:  # noqa: ANN401 - of any class
    return decode(type(thing), orjson.loads(encode(thing)))


async def test_an_encoded_info_decodes_to_the_same_info(
    sup: Supervisor, session: Session, run: AgentRun
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


async def test_an_encoded_tree_decodes_with_its_descendants(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    child = await session.spawn("fake", "go")
    await child.spawn("fake", "go")
    tree = await sup.tree()

    (made,) = [decode(Node, one) for one in orjson.loads(encode(tree))]

    assert made == tree[0]
    assert made.children[0].children[0].parent == child.id


async def test_a_tree_of_any_depth_can_be_encoded(session: Session) -> None:
    fields = {field.name: getattr(await session.info(), field.name) for field in attrs.fields(Info)}
    tree = Node(**{**fields, "children": ()})
    for _ in range(sys.getrecursionlimit() * 2):
        tree = Node(**{**fields, "children": (tree, tree) if not tree.children else (tree,)})

    assert encode(tree).count(b'"children"') == sys.getrecursionlimit() * 2 + 2


def test_a_body_of_maximum_depth_can_be_encoded() -> None:
    deep: Any = "x"
    for _ in range(253):
        deep = [deep]
    record = Record(SessionId("s_1"), 1, 0.0, None, "plan", {"entries": deep})

    assert b'[["x"]]' in encode(Page((record,), None))


async def test_a_page_is_encoded_with_items_and_next() -> None:
    page = await encode_page([Message("user", "a", 1.0)] * 250, "250")

    assert len(orjson.loads(page)["items"]) == 250
    assert orjson.loads(page)["next"] == "250"
    assert orjson.loads(await encode_page([], None)) == {"items": [], "next": None}


def test_an_unknown_class_cannot_be_encoded() -> None:
    with pytest.raises(TypeError, match="serializable"):
        encode(object())


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_answer_can_be_decoded(operation: Any) -> None:  # noqa: ANN401 - an Operation
    make_converter(detailed=True).get_structure_hook(operation.result_kind)


def test_the_classes_of_the_surface_can_be_decoded() -> None:
    for kind in (Info, Node, Stats, Why, Record, Page[Info]):
        make_converter(detailed=True).get_structure_hook(kind)


def test_a_cached_value_is_encoded_like_an_uncached_value() -> None:
    kinds = [Limits(), Limits(cost=1.5), Permissions(tools=["b", "a"]), Usage(1, 2, 0.5)]

    for thing in [*kinds, *kinds]:
        assert decode(type(thing), orjson.loads(encode(thing))) == thing
