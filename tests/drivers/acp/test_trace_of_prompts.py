"""Trace context of inputs, from `send` to the prompt that the agent gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from supervisor import InputRefused
from tests.support.acp_supervisor import open_session
from tests.support.fake_agents import records
from tests.support.in_memory_processes import InMemoryProcess

TRACE = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "a=1",
    "baggage": "user=alice",
}


def meta_of_prompts(process: InMemoryProcess) -> list[Any]:
    said = [json.loads(line) for side, line in process.wire if side == "client"]
    return [one["params"].get("_meta") for one in said if one.get("method") == "session/prompt"]


async def test_the_agent_is_told_the_trace_of_each_input() -> None:
    async with open_session() as (session, processes):
        await session.send("sleep 1", trace=TRACE)
        await session.send("say two")
        await session.send("say three", trace={"baggage": "user=bob"})
        await session.wait_idle()

        assert meta_of_prompts(processes.all[0]) == [TRACE, None, {"baggage": "user=bob"}]


async def test_a_queued_input_keeps_its_trace_when_the_agent_crashes() -> None:
    async with open_session() as (session, processes):
        await session.send("crash")
        receipt = await session.send("say two", trace=TRACE)
        await session.result(receipt.input_id)

        assert meta_of_prompts(processes.all[-1]) == [TRACE]


async def test_the_record_has_a_trace_only_if_there_is_one() -> None:
    async with open_session() as (session, _):
        await session.send("say one", trace=TRACE)
        await session.send("say two", trace={})
        await session.wait_idle()
        accepted = [one.body for one in await records(session) if one.kind == "input_accepted"]

        assert [body.get("trace") for body in accepted] == [TRACE, None]
        assert "trace" not in accepted[1]


async def test_an_invalid_trace_is_refused() -> None:
    async with open_session() as (session, _):
        with pytest.raises(InputRefused, match="trace context"):
            await session.send("say one", trace={"traceparent": "1"})
        await trio.lowlevel.checkpoint()

        assert (await session.info()).turns == 0
