"""Answers that are deeper than a recursive parser or decoder allows."""

from __future__ import annotations

import orjson
import pytest

from supervisor import Node, Page
from supervisor.api.encode import encode_page
from supervisor.client.deep_json import parse_json
from supervisor.decode import DecodeError, decode_light
from tests.support.deep_trees import DEPTH, chain, deep_tree


async def test_a_deep_tree_arrives_as_it_was_sent() -> None:
    tree = deep_tree()

    page = decode_light(Page[Node], parse_json(await encode_page([tree, tree], None)))

    assert len(page.items) == 2
    for made in page.items:
        shown = [(node.id, node.custom, node.phase) for node in chain(made)]
        assert shown == [(node.id, node.custom, node.phase) for node in chain(tree)]
        assert all(type(node) is Node for node in chain(made))


async def test_a_fault_in_a_deep_tree_is_reported_with_its_path() -> None:
    content = await encode_page([deep_tree()], None)

    with pytest.raises(DecodeError) as raised:
        decode_light(Page[Node], parse_json(content.replace(b'"id":"s_3"', b'"id":3')))

    [fault] = raised.value.invalid_fields
    assert fault.path == "$.items[0]" + ".children[0]" * 3 + ".id"


@pytest.mark.parametrize("children", [b"5", b"null", b'["a"]', b"[{}]"])
async def test_wrong_children_of_a_node_are_refused(children: bytes) -> None:
    content = await encode_page([deep_tree().children[0]], None)
    end = content.rindex(b'"children":[]')
    wrong = content[:end] + b'"children":' + children + content[end + 13 :]

    with pytest.raises(DecodeError):
        decode_light(Page[Node], parse_json(wrong))


@pytest.mark.parametrize(
    "plain", [[1, 2.5, 'a"b', None, True], {"a": {"b": []}, "c": {}}, [[], []]]
)
def test_any_value_can_be_parsed_below_the_depth_limit(plain: object) -> None:
    text = b"[" * DEPTH + b" " + orjson.dumps(plain) + b"\n" + b"]" * DEPTH

    made = parse_json(text)
    for _ in range(DEPTH):
        [made] = made
    assert made == plain


@pytest.mark.parametrize(
    "end", [b"]" * (DEPTH - 1), b"]" * (DEPTH + 1), b"}" * DEPTH, b"nul" + b"]" * DEPTH]
)
def test_a_broken_deep_answer_is_refused(end: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        parse_json(b"[" * DEPTH + end)
