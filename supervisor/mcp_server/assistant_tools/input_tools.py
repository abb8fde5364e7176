"""The tools `inputs`, `edit_input` and `cancel_input` of an assistant: the queue of a session."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    clip,
    described,
)

from .session_tools import OneSessionArguments

_SHOWN_CHARS: Final = 200


@attrs.frozen(kw_only=True)
class InputToRun:
    """An input that is accepted and not settled."""

    input: str = described("its id")
    status: str = described("queued, or staged: it waits to steer the turn")
    position: int = described("in the queue, from 0")
    text: str


@attrs.frozen(kw_only=True)
class InputsAnswer:
    """The inputs of a session, in the order in which they run."""

    session: str = described("the id of the session")
    inputs: tuple[InputToRun, ...] = described("with id, status, place and text")


async def _inputs(context: ToolContext, given: OneSessionArguments) -> Answered:
    return await _shown(context, await context.find(given.session))


async def _shown(context: ToolContext, target: str) -> Answered:
    assert context.target is not None
    found = await context.subtree.session(context.target).inputs()
    inputs = tuple(
        InputToRun(input=one.id, status=one.status, position=one.position, text=clip(one.text))
        for one in found
    )
    lines = [f"{one.position} {one.input}: {clip(one.text, _SHOWN_CHARS)}" for one in inputs]
    return InputsAnswer(session=target, inputs=inputs), "\n".join(lines) or "no input waits"


@attrs.frozen(kw_only=True)
class EditInputArguments:
    """The arguments of `edit_input`."""

    session: str = described("id, name, key or path of a session")
    input: str = described("the id of an input that waits")
    text: str = described("the new text")


async def _edit(context: ToolContext, given: EditInputArguments) -> Answered:
    target = await context.find(given.session)
    await context.subtree.session(target).edit_input(given.input, given.text)
    return await _shown(context, target)


@attrs.frozen(kw_only=True)
class CancelInputArguments:
    """The arguments of `cancel_input`."""

    session: str = described("id, name, key or path of a session")
    input: str = described("the id of an input that waits")


async def _cancel(context: ToolContext, given: CancelInputArguments) -> Answered:
    target = await context.find(given.session)
    await context.subtree.session(target).cancel_input(given.input)
    return await _shown(context, target)


INPUTS: Final = SessionTool(
    name="inputs",
    title="List inputs",
    description="List the inputs of a session that wait for their turn, in order.",
    arguments=OneSessionArguments,
    answer=InputsAnswer,
    run=_inputs,
    is_read_only=True,
)
EDIT_INPUT: Final = SessionTool(
    name="edit_input",
    title="Edit an input",
    description="Replace the text of an input that waits for its turn.",
    arguments=EditInputArguments,
    answer=InputsAnswer,
    run=_edit,
    is_destructive=True,
    is_idempotent=True,
    gives_work=True,
)
CANCEL_INPUT: Final = SessionTool(
    name="cancel_input",
    title="Cancel an input",
    description="Cancel an input that waits for its turn: it will not run.",
    arguments=CancelInputArguments,
    answer=InputsAnswer,
    run=_cancel,
    is_destructive=True,
)
