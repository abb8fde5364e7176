"""Models of what the newest schema has and the models of the SDK lack.

The newest schema is that of the TypeScript SDK 2.4.0: notices, compactions, names of tool calls
and, unstable, subagents.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from acp import schema
from pydantic import Field

Json = dict[str, Any]


class Marker(schema.BaseModel):
    """A capability without fields."""


class ClientSessionCapabilities(schema.ClientSessionCapabilities):
    notices: Marker | None = None
    compaction: Marker | None = None


class ClientCapabilities(schema.ClientCapabilities):
    session: ClientSessionCapabilities | None = None
    subagents: Marker | None = None


class InitializeRequest(schema.InitializeRequest):
    client_capabilities: Annotated[ClientCapabilities | None, Field(alias="clientCapabilities")] = (
        None
    )


class Notice(schema.BaseModel):
    session_update: Annotated[Literal["notice"], Field(alias="sessionUpdate")]
    severity: str
    title: Annotated[str, Field(min_length=1)]
    description: str | None = None


class CompactionUpdate(schema.BaseModel):
    session_update: Annotated[Literal["compaction_update"], Field(alias="sessionUpdate")]
    compaction_id: Annotated[str, Field(alias="compactionId")]
    status: str
    summary: list[schema.TextContentBlock] | None = None
    error: str | None = None


class CompactionSummaryChunk(schema.BaseModel):
    session_update: Annotated[Literal["compaction_summary_chunk"], Field(alias="sessionUpdate")]
    compaction_id: Annotated[str, Field(alias="compactionId")]
    content: schema.TextContentBlock


class SubagentState(schema.BaseModel):
    state: Literal["running", "idle", "requires_action"]
    stop_reason: Annotated[str | None, Field(alias="stopReason")] = None


class SubagentUpdate(schema.BaseModel):
    session_update: Annotated[Literal["subagent_update"], Field(alias="sessionUpdate")]
    session_id: Annotated[str, Field(alias="sessionId")]
    title: str | None = None
    description: str | None = None
    state: SubagentState | None = None


class ToolCallStart(schema.ToolCallStart):
    name: str | None = None


class SessionNotification(schema.SessionNotification):
    update: Annotated[  # type: ignore[assignment] # wider than that of the SDK
        schema.UserMessageChunk
        | schema.AgentMessageChunk
        | schema.AgentThoughtChunk
        | ToolCallStart
        | schema.ToolCallProgress
        | schema.AgentPlanUpdate
        | schema.AvailableCommandsUpdate
        | schema.CurrentModeUpdate
        | schema.ConfigOptionUpdate
        | schema.SessionInfoUpdate
        | schema.UsageUpdate
        | Notice
        | CompactionUpdate
        | CompactionSummaryChunk
        | SubagentUpdate,
        Field(discriminator="session_update"),
    ]
