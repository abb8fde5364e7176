"""The form of tools: schemas, annotations, scopes, and arguments that do not fit."""
# ruff: noqa: ANN401 - JSON data of any form

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from supervisor import Settings, Supervisor
from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.session_tool import SessionTool
from supervisor.mcp_server.session_tools import SessionTools
from supervisor.mcp_server.tool_list import ASSISTANT_TOOLS, TOOLS
from tests.support.tool_calls import CallingSession

NAMES = [tool.name for tool in TOOLS]
ALL_TOOLS = (*TOOLS, *(tool for tool in ASSISTANT_TOOLS if tool not in TOOLS))
ALL_NAMES = [tool.name for tool in ALL_TOOLS]
REQUIRED: dict[str, Any] = {"text": "x", "session": "s_1", "request": "r", "decision": "x"}


def objects_in(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, dict):
        inner = [one for value in schema.values() for one in objects_in(value)]
        return [schema, *inner] if schema.get("type") == "object" else inner
    return [one for item in schema for one in objects_in(item)] if isinstance(schema, list) else []


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=ALL_NAMES)
def test_the_schemas_of_a_tool_are_valid_and_allow_no_other_fields(tool: SessionTool) -> None:
    described = tool.describe(Settings())

    for schema in (described.input_schema, described.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert all(one["additionalProperties"] is False for one in objects_in(schema))


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=ALL_NAMES)
def test_each_argument_of_a_tool_is_described(tool: SessionTool) -> None:
    properties = tool.describe(Settings()).input_schema["properties"]

    assert [name for name, one in properties.items() if not one.get("description")] == []


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=ALL_NAMES)
def test_a_tool_that_only_reads_destroys_nothing(tool: SessionTool) -> None:
    hints = tool.describe(Settings()).annotations

    assert not (hints["readOnlyHint"] and hints["destructiveHint"])
    assert all(isinstance(hints[name], bool) for name in hints if name != "title")


async def test_a_caller_that_may_only_look_gets_the_tools_that_only_read(
    tools: SessionTools,
) -> None:
    caller = Caller(name="s_1", scope="self,look", session_id=None)

    found = tools.tools_for(caller)

    assert found
    assert all(one.annotations["readOnlyHint"] for one in found)
    assert "spawn" not in [one.name for one in found]


async def test_the_instructions_have_at_most_a_dozen_lines(tools: SessionTools) -> None:
    for scope in ("self", "self,look", "all"):
        text = tools.instructions_for(Caller(name="x", scope=scope))

        assert len(text.splitlines()) <= 12


async def test_an_unknown_tool_is_an_error_of_the_protocol(parent: CallingSession) -> None:
    with pytest.raises(KeyError):
        await parent.tools.call("delete", {}, parent.caller)


async def test_a_tool_outside_the_scope_is_unknown(sup: Supervisor, parent: CallingSession) -> None:
    looker = CallingSession(parent.tools, parent.id, "self,look")

    with pytest.raises(KeyError):
        await looker.answer("spawn", text="x")
    assert (await looker.call("agents"))["agents"]


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
async def test_an_unknown_argument_is_refused(parent: CallingSession, tool: SessionTool) -> None:
    needed = tool.describe(Settings()).input_schema.get("required", [])
    given = {name: REQUIRED[name] for name in needed}

    refused = await parent.refusal(tool.name, nonsense=1, **given)

    assert (refused["code"], refused["retry"]) == ("config_error", "never")
    assert "$.nonsense" in refused["detail"]


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
async def test_an_argument_of_a_wrong_type_is_refused(
    parent: CallingSession, tool: SessionTool
) -> None:
    for name in tool.describe(Settings()).input_schema["properties"]:
        refused = await parent.refusal(tool.name, **{name: {"x": [b"".hex()]}})

        assert refused["code"] in ("config_error", "invalid_key")
        assert refused["retry"] == "never"
