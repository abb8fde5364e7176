"""Callers of our tools, and checks of the answers."""
# ruff: noqa: ANN401 - JSON data of any form

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from supervisor.core.ids import SessionId
from supervisor.mcp_server.caller import Caller, ToolScope
from supervisor.mcp_server.session_tools import SessionTools
from supervisor.mcp_server.tool import ToolAnswer

RETRIES = {"never", "later", "after"}


def check_answer(tools: SessionTools, caller: Caller, name: str, answer: ToolAnswer) -> None:
    """Check the answer against the output schema, or against the form of a refusal."""
    assert answer.text
    if answer.is_error:
        assert {"code", "detail", "hint", "retry"} <= answer.structured.keys()
        assert answer.structured["retry"] in RETRIES
        assert ("after_seconds" in answer.structured) == (answer.structured["retry"] == "after")
        return
    (described,) = [one for one in tools.tools_for(caller) if one.name == name]
    jsonschema.validate(answer.structured, described.output_schema)


class CallingSession:
    """A session that calls tools as its agent does over MCP; each answer is checked."""

    def __init__(
        self, tools: SessionTools, session_id: SessionId, scope: ToolScope = "self"
    ) -> None:
        self.tools = tools
        self.id = session_id
        self.caller = Caller(name=session_id, scope=scope, session_id=session_id)

    async def answer(self, name: str, /, **arguments: Any) -> ToolAnswer:
        answer = await self.tools.call(name, arguments, self.caller)
        check_answer(self.tools, self.caller, name, answer)
        return answer

    async def call(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:
        """Return the structured answer of a call that is not refused."""
        answer = await self.answer(name, **arguments)
        assert not answer.is_error, answer.text
        return answer.structured

    async def refusal(self, name: str, /, **arguments: Any) -> Mapping[str, Any]:
        """Return the structured answer of a call that is refused."""
        answer = await self.answer(name, **arguments)
        assert answer.is_error, answer.text
        return answer.structured
