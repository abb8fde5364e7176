"""Prompts as content blocks; see acp/prompts.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.drivers.acp.capabilities import AgentCapabilities
from supervisor.drivers.acp.prompts import prompt_blocks
from tests.support.acp_schema import assert_valid

ALL = AgentCapabilities(takes_images=True, takes_audio=True, takes_embedded_context=True)


def block(
    attachment: dict[str, Any], offers: AgentCapabilities = ALL, workspace: str | None = "/w"
) -> dict[str, Any]:
    """Return the block of an attachment."""
    text, made = prompt_blocks("hi", [attachment], capabilities=offers, workspace=workspace)
    assert text == {"type": "text", "text": "hi"}
    judge([text, made])
    return made


def judge(blocks: list[Any]) -> None:
    params = {"sessionId": "s", "prompt": blocks}
    assert_valid(
        {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}, "client"
    )


def test_a_text_is_one_block() -> None:
    assert prompt_blocks("hi", (), capabilities=AgentCapabilities(), workspace=None) == [
        {"type": "text", "text": "hi"}
    ]


@pytest.mark.parametrize(
    ("attachment", "made"),
    [
        (
            {"path": "src/a b.py"},
            {"type": "resource_link", "uri": "file:///w/src/a%20b.py", "name": "a b.py"},
        ),
        (
            {"path": "/x/a.py", "name": "the file", "mime_type": "text/x-python", "size": 5},
            {
                "type": "resource_link",
                "uri": "file:///x/a.py",
                "name": "the file",
                "mimeType": "text/x-python",
                "size": 5,
            },
        ),
        (
            {"uri": "https://example.org/page"},
            {"type": "resource_link", "uri": "https://example.org/page", "name": "page"},
        ),
        (
            {"data": "AAAA", "mime_type": "image/png"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ),
        (
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        ),
        (
            {"name": "notes.txt", "text": "read me"},
            {"type": "resource", "resource": {"uri": "file:///w/notes.txt", "text": "read me"}},
        ),
        (
            {"data": "AAAA", "mimeType": "application/pdf", "uri": "file:///a.pdf"},
            {
                "type": "resource",
                "resource": {
                    "uri": "file:///a.pdf",
                    "mimeType": "application/pdf",
                    "blob": "AAAA",
                },
            },
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "t/p"}},
            {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "t/p", "text": "x"}},
        ),
        ({"type": "text", "text": "more"}, {"type": "text", "text": "more"}),
    ],
)
def test_an_attachment_becomes_its_block(attachment: dict[str, Any], made: dict[str, Any]) -> None:
    assert block(attachment) == made


@pytest.mark.parametrize(
    ("attachment", "text"),
    [
        ({"data": "AAAA", "mimeType": "image/png"}, "[image image/png 3 bytes]"),
        ({"data": "AAAA", "mimeType": "audio/wav"}, "[audio audio/wav 3 bytes]"),
        ({"name": "a.txt", "text": "read me"}, "[attachment file:///w/a.txt]\nread me"),
        ({"whatever": [1, 2]}, '[attachment] {"whatever":[1,2]}'),
        ({"type": "resource", "resource": {"uri": 5}}, None),
    ],
)
def test_an_unsupported_attachment_becomes_text(
    attachment: dict[str, Any], text: str | None
) -> None:
    made = block(attachment, AgentCapabilities())

    assert made["type"] == "text"
    assert text is None or made["text"] == text


def test_a_text_file_is_sent_whole_to_an_agent_without_files() -> None:
    made = block({"name": "a.txt", "text": "x" * 60_000}, AgentCapabilities())

    assert made["text"].endswith("x" * 60_000)


def test_a_relative_path_without_a_workspace_is_only_a_name() -> None:
    assert block({"path": "a.py"}, workspace=None)["uri"] == "attachment:a.py"


any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
FIELDS = [
    "type",
    "path",
    "uri",
    "name",
    "text",
    "data",
    "mimeType",
    "mime_type",
    "resource",
    "blob",
]


@given(st.dictionaries(st.sampled_from(FIELDS), any_json, max_size=6), st.booleans())
def test_any_attachment_makes_a_valid_prompt(
    attachment: dict[str, Any],
    takes_all: bool,  # noqa: FBT001 - hypothesis gives arguments by place
) -> None:
    block(attachment, ALL if takes_all else AgentCapabilities())
