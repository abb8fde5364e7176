"""The tool `send`: give a session below more work, or steer its turn."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.state import WhenBusy
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    described,
)


@attrs.frozen(kw_only=True)
class SendArguments:
    """The arguments of `send`."""

    session: str = described("id, name or role of a session below yours")
    text: str = described("what it should do")
    when_busy: WhenBusy = described(
        "while its turn runs: queue the text, steer the turn with it, interrupt the turn and run"
        " it next, or reject it",
        "queue",
    )
    idempotency_key: str | None = described(
        "the same key and the same arguments send it once", None
    )


@attrs.frozen(kw_only=True)
class SendAnswer:
    """The receipt of an input, which is durable."""

    session: str = described("the session that has the input")
    input: str = described("the id of the input")
    status: str = described("started, queued, staged (waits to steer) or interrupting")
    position: int | None = described("in the queue, from 0", None)
    turn: str | None = described("the turn that it started or is to steer", None)
    previous_turn: str | None = described("the turn that it interrupts", None)


async def _run(context: ToolContext, given: SendArguments) -> Answered:
    target = await context.find_below(given.session)
    await context.subtree.working_session()  # raises unless a turn gives the work
    receipt = await context.subtree.session(target).send(
        given.text, when_busy=given.when_busy, idempotency_key=given.idempotency_key
    )
    answer = SendAnswer(
        session=target,
        input=receipt.input_id,
        status=receipt.status,
        position=receipt.position,
        turn=receipt.turn_id,
        previous_turn=receipt.previous_turn_id,
    )
    return answer, f"{receipt.status}: input {receipt.input_id} of {target}"


TOOL: Final = SessionTool(
    name="send",
    title="Send text to a session",
    description=(
        "Send another input to a session below yours: more work, an answer, or steering of the"
        " turn that runs. It returns at once; call wait for the result. A stopped session starts"
        " again."
    ),
    arguments=SendArguments,
    answer=SendAnswer,
    run=_run,
    gives_work=True,
)
