"""The stand-in model answers in each dialect what its script says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio

from tests.support.model_clients import CLIENTS, DIALECTS, Answer
from tests.support.stand_in_model.server import StandInModel, open_stand_in_model

TOOLS = ("read", "mcp__understudy__read", "mcp__understudy__spawn")
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
streamed_or_whole = pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])


@pytest.fixture
async def model() -> AsyncIterator[StandInModel]:
    with trio.fail_after(30):
        async with open_stand_in_model() as served:
            yield served


@pytest.fixture
async def http(model: StandInModel) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=model.url, timeout=10, trust_env=False) as client:
        yield client


@every_dialect
@streamed_or_whole
async def test_a_text_is_answered(
    http: httpx.AsyncClient, dialect: str, *, is_stream: bool
) -> None:
    client = CLIENTS[dialect](http, TOOLS, is_stream=is_stream)

    assert await client.prompt("say hello  there") == Answer("hello  there")


@every_dialect
@streamed_or_whole
async def test_a_tool_is_called_and_its_result_reported(
    http: httpx.AsyncClient, dialect: str, *, is_stream: bool
) -> None:
    client = CLIENTS[dialect](http, TOOLS, is_stream=is_stream)

    called = await client.prompt('say now\ncall spawn {"text": "say hi"}\nsay got {result}')
    ended = await client.give_result("s_1 started")

    assert called == Answer("now", "mcp__understudy__spawn", {"text": "say hi"})
    assert ended == Answer("got s_1 started")


@every_dialect
async def test_a_second_prompt_has_a_script_of_its_own(
    http: httpx.AsyncClient, dialect: str
) -> None:
    client = CLIENTS[dialect](http, TOOLS)
    await client.prompt("call spawn {}\ncall spawn {}\nsay over")
    await client.give_result("one")

    again = await client.prompt("call understudy.read {}")

    assert again == Answer("", "mcp__understudy__read", {})
    assert await client.give_result("two") == Answer("done")


@every_dialect
async def test_what_was_asked_is_recorded(
    model: StandInModel, http: httpx.AsyncClient, dialect: str
) -> None:
    await CLIENTS[dialect](http, TOOLS).prompt("say yes")

    assert [one.dialect for one in model.asked] == [dialect]
    assert sorted(tool.full_name for tool in model.tools()) == sorted(TOOLS)


async def test_a_tool_of_a_namespace_is_called_by_both_names(http: httpx.AsyncClient) -> None:
    tool = {"type": "function", "name": "spawn", "parameters": {}}
    group = {"type": "namespace", "name": "mcp__understudy", "tools": [tool]}
    body = {"input": "call understudy.spawn {}", "tools": [group]}

    answered = (await http.post("/v1/responses", json=body)).json()

    (call,) = answered["output"]
    assert (call["namespace"], call["name"]) == ("mcp__understudy", "spawn")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/messages/count_tokens", "input_tokens"),
        ("/v1beta/models/any:countTokens", "totalTokens"),
    ],
)
async def test_tokens_are_counted(http: httpx.AsyncClient, path: str, field: str) -> None:
    answered = (await http.post(path, json={})).json()

    assert answered[field] > 0


async def test_the_models_are_listed(http: httpx.AsyncClient) -> None:
    answered: dict[str, Any] = (await http.get("/v1/models")).json()

    assert [one["id"] for one in answered["data"]] == ["stand-in"]


async def test_a_client_that_goes_away_is_forgotten(
    model: StandInModel, http: httpx.AsyncClient
) -> None:
    body = {"input": "say " + "word " * 20_000, "stream": True}
    async with http.stream("POST", "/v1/responses", json=body) as response:
        assert response.status_code == 200

    assert await CLIENTS["openai_chat"](http, TOOLS).prompt("say yes") == Answer("yes")


async def test_an_unknown_path_is_refused_and_recorded(
    model: StandInModel, http: httpx.AsyncClient
) -> None:
    answered = await http.post("/v1/telemetry", json={})

    assert answered.status_code == 404
    assert model.unknown == ["POST /v1/telemetry"]
