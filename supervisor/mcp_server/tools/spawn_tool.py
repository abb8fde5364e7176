"""The tool `spawn`: start a child with a task."""

from __future__ import annotations

import os.path
from typing import Final

import attrs

from supervisor.core.creation import SpawnOptions
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.limits import Lifetime, Limits, OnEnd
from supervisor.core.permissions import Permissions
from supervisor.core.state import SessionState
from supervisor.handles.subtree import Allowance
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    described,
)

from .agents_tool import allowance_text


@attrs.frozen(kw_only=True)
class SpawnArguments:
    """The arguments of `spawn`."""

    text: str = described("the task: the child knows nothing else of your conversation")
    agent: str | None = described("the agent; default: your own", None)
    name: str | None = described("a name, unique in the tree, by which you can call it", None)
    role: str = described("what it is for, such as tester; shown in the tree", "worker")
    workspace: str | None = described("a folder inside your workspace; default: yours", None)
    limits: Limits | None = described("limits of the child and all below it", None)
    ttl_seconds: float | None = described("stop it after this time", None)
    permissions: Permissions | None = described(
        "what it may use, at most what you may; what is left out is as yours", None
    )
    on_end: OnEnd = described(
        "when its task ends: wake starts a turn of yours, tell only leaves news", "wake"
    )
    lifetime: Lifetime = described("detached: it goes on when your session stops", "with_parent")
    idempotency_key: str | None = described(
        "the same key and the same arguments give the same child", None
    )


@attrs.frozen(kw_only=True)
class SpawnAnswer:
    """The answer of `spawn`."""

    session: str = described("the id of the child")
    name: str | None = described("its name", None)
    depth: int = described("its level in the tree")
    input: str | None = described("the id of the input with its task", None)
    left: Allowance = described("what you and the sessions below may still use together")


async def _run(context: ToolContext, given: SpawnArguments) -> Answered:
    subtree = context.subtree
    session = await subtree.working_session()
    own = (await subtree.snapshot(subtree.id)).state
    options = SpawnOptions(
        role=given.role,
        lifetime=given.lifetime,
        on_end=given.on_end,
        ttl_seconds=given.ttl_seconds,
        name=given.name,
        workspace=_absolute(given.workspace, own),
        limits=given.limits,
        permissions=given.permissions,
        idempotency_key=given.idempotency_key,
    )
    child = await session.spawn(given.agent or own.agent_name, given.text, **options)
    context.target = child.id
    made = (await subtree.snapshot(child.id)).state
    answer = SpawnAnswer(
        session=child.id,
        name=made.name,
        depth=made.lineage.depth,
        input=made.lineage.input,
        left=subtree.allowance((await subtree.snapshot(subtree.id)).state),
    )
    return answer, f"spawned {child.id}; left: {allowance_text(answer.left)}"


def _absolute(workspace: str | None, own: SessionState) -> str | None:
    """Return the folder; a relative one is inside the workspace of the caller."""
    if workspace is None or os.path.isabs(workspace):  # noqa: PTH117 - as text, which is passed on
        return workspace
    if own.workspace is None:
        raise ConfigError(
            f"workspace is {short_repr(workspace)}, and your session has no workspace",
            hint="give an absolute path",
        )
    return os.path.join(own.workspace, workspace)  # noqa: PTH118 - as above


TOOL: Final = SessionTool(
    name="spawn",
    title="Start a child",
    description=(
        "Start another agent in a session below yours, with a task as its first input, and return"
        " when it is at work; then call wait. It is refused with the limit that is exhausted."
    ),
    arguments=SpawnArguments,
    answer=SpawnAnswer,
    run=_run,
    gives_work=True,
)
