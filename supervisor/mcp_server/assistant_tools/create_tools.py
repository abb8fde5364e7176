"""The tools `create`, `spawn` and `fork` of an assistant: new sessions."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

import attrs

from supervisor.core.creation import SpawnOptions
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.limits import Lifetime, Limits
from supervisor.core.permissions import Permissions
from supervisor.mcp_server.session_tool import Answered, SessionTool, ToolContext, described

_KEY: Final = "the same key and the same arguments give the same session"


@attrs.frozen(kw_only=True)
class CreateArguments:
    """The arguments of `create`; permissions are the default ones."""

    agent: str = described("the agent; agents has the names")
    text: str | None = described("the first input; without it, the session is idle", None)
    name: str | None = described("a name, by which you can call it", None)
    title: str | None = described("a title, for people", None)
    tags: tuple[str, ...] = described("tags, for people", (), maxItems=50)
    workspace: str | None = described("the absolute path of its folder", None)
    limits: Limits | None = described("limits and budgets of it and all below it", None)
    idempotency_key: str | None = described(_KEY, None)


@attrs.frozen(kw_only=True)
class NewSession:
    """A session that was made."""

    session: str = described("the id of the new session")
    name: str | None = described("its name", None)
    input: str | None = described("the id of its first input", None)


async def _create(context: ToolContext, given: CreateArguments) -> Answered:
    if given.workspace is not None and not PurePath(given.workspace).is_absolute():
        raise ConfigError(
            f"workspace is {short_repr(given.workspace)}",
            hint="give an absolute path: the folder of the supervisor is not yours",
        )
    made = await context.sup.create(
        given.agent,
        name=given.name,
        title=given.title,
        tags=given.tags,
        workspace=given.workspace,
        limits=given.limits,
        idempotency_key=given.idempotency_key,
    )
    context.target = made.id
    input_id: str | None = None
    if given.text is not None:
        key = None if given.idempotency_key is None else f"create {given.idempotency_key}"
        input_id = (await made.send(given.text, idempotency_key=key)).input_id
    answer = NewSession(session=made.id, name=given.name, input=input_id)
    return answer, f"created {made.id}"


CREATE: Final = SessionTool(
    name="create",
    title="Create a session",
    description=(
        "Create a session, the root of a new tree, with a first text if you give one. It asks for"
        " permissions as any session does. Returns when its agent is up; then call wait."
    ),
    arguments=CreateArguments,
    answer=NewSession,
    run=_create,
    gives_work=True,
)


@attrs.frozen(kw_only=True)
class SpawnBelowArguments:
    """The arguments of `spawn`."""

    parent: str = described("id, name, key or path of the session to start it below")
    agent: str = described("the agent; agents has the names")
    text: str = described("the task: the child knows nothing of the conversation of its parent")
    name: str | None = described("a name, unique in the tree, by which you can call it", None)
    role: str = described("what it is for, such as tester; shown in the tree", "worker")
    workspace: str | None = described("a folder inside that of the parent; default: that", None)
    limits: Limits | None = described("limits of the child and all below it", None)
    ttl_seconds: float | None = described("stop it after this time", None)
    permissions: Permissions | None = described(
        "what it may use, at most what its parent may; what is left out is as there", None
    )
    lifetime: Lifetime = described("detached: it goes on when its parent stops", "with_parent")
    idempotency_key: str | None = described(_KEY, None)


async def _spawn(context: ToolContext, given: SpawnBelowArguments) -> Answered:
    parent = await context.find(given.parent)
    options = SpawnOptions(
        role=given.role,
        lifetime=given.lifetime,
        ttl_seconds=given.ttl_seconds,
        name=given.name,
        workspace=given.workspace,
        limits=given.limits,
        permissions=given.permissions,
        idempotency_key=given.idempotency_key,
    )
    child = await context.subtree.session(parent).spawn(given.agent, given.text, **options)
    context.target = child.id
    made = (await context.subtree.snapshot(child.id)).state
    answer = NewSession(session=child.id, name=made.name, input=made.lineage.input)
    return answer, f"spawned {child.id}"


SPAWN: Final = SessionTool(
    name="spawn",
    title="Start a child",
    description=(
        "Start an agent in a session below another one, with a task as its first input. The limits"
        " and permissions of the sessions above hold for it; a refusal names the limit."
    ),
    arguments=SpawnBelowArguments,
    answer=NewSession,
    run=_spawn,
    gives_work=True,
)


@attrs.frozen(kw_only=True)
class ForkArguments:
    """The arguments of `fork`."""

    session: str = described("id, name, key or path of a session")
    at_turn: str | None = described("the last turn to copy; default: all", None)


async def _fork(context: ToolContext, given: ForkArguments) -> Answered:
    target = await context.find(given.session)
    made = await context.subtree.session(target).fork(given.at_turn)
    return NewSession(session=made.id), f"forked {target} as {made.id}"


FORK: Final = SessionTool(
    name="fork",
    title="Fork a session",
    description=(
        "Make a new session with the history of another one, up to a turn. The other one does not"
        " change; the new one has its permissions, and none of its permission rules."
    ),
    arguments=ForkArguments,
    answer=NewSession,
    run=_fork,
    gives_work=True,
)
