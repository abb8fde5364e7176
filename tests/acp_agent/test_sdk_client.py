"""The client of the official SDK, against the command and a real daemon."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    RequestPermissionResponse,
    ResumeSessionRequest,
    TextContentBlock,
)

from tests.support.acp_editor_process import PATIENCE_SECONDS, environ_of
from tests.support.daemon_in_process import Home
from tests.support.daemon_process import AGENTS, daemon

Work = Callable[[Any, "SdkClient"], Awaitable[None]]


class SdkClient:
    """A client that notes what it is told, and allows everything."""

    def __init__(self) -> None:
        self.text = ""
        self.kinds: list[str] = []
        self.asked = 0

    def on_connect(self, conn: object) -> None:
        """Do nothing: the connection is the test's."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:  # noqa: ANN401 - the SDK's
        self.kinds.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text

    async def request_permission(self, options: list[Any], **_: Any) -> RequestPermissionResponse:  # noqa: ANN401 - the SDK's
        self.asked += 1
        option = next(one.option_id for one in options if one.kind == "allow_once")
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=option)
        )


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="us-") as made:
        found = Home(Path(made))
        found.write(AGENTS)
        with daemon(found):
            yield found


@asynccontextmanager
async def connected(home: Home) -> AsyncIterator[tuple[Any, SdkClient]]:
    client: Any = SdkClient()
    async with acp.spawn_agent_process(
        client,
        sys.executable,
        *("-m", "supervisor.cli", "acp", "--agent", "robot"),
        env=environ_of(home),
        cwd=home.folder,
    ) as (connection, _):
        await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_capabilities=ClientCapabilities()
        )
        yield connection, client


def run(home: Home, work: Work) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), connected(home) as (connection, client):
            await work(connection, client)

    asyncio.run(main())


def says(text: str) -> list[TextContentBlock]:
    return [acp.text_block(text)]


def test_it_prompts_and_answers_a_request(home: Home) -> None:
    async def work(connection: Any, client: SdkClient) -> None:  # noqa: ANN401 - the SDK's
        session = await connection.new_session(cwd="/", mcp_servers=[])
        answer = await connection.prompt(
            session_id=session.session_id, prompt=says("say hello\nthink so\nask delete")
        )

        assert answer.stop_reason == "end_turn"
        assert client.text.startswith("hello")
        assert client.asked == 1
        assert {"agent_thought_chunk", "available_commands_update"} <= set(client.kinds)

    run(home, work)


def test_it_cancels(home: Home) -> None:
    async def work(connection: Any, client: SdkClient) -> None:  # noqa: ANN401 - the SDK's
        session = (await connection.new_session(cwd="/", mcp_servers=[])).session_id
        prompt = asyncio.create_task(connection.prompt(session_id=session, prompt=says("sleep 60")))
        await asyncio.sleep(0)
        await connection.cancel(session_id=session)

        assert (await prompt).stop_reason == "cancelled"

    run(home, work)


def test_it_lists_loads_resumes_and_closes(home: Home) -> None:
    async def work(connection: Any, client: SdkClient) -> None:  # noqa: ANN401 - the SDK's
        session = (await connection.new_session(cwd="/", mcp_servers=[])).session_id
        await connection.prompt(session_id=session, prompt=says("say hello"))
        listed = await connection.list_sessions()
        assert session in [one.session_id for one in listed.sessions]
        await connection.close_session(session_id=session)

        await connection.load_session(cwd="/", session_id=session, mcp_servers=[])
        assert client.text == "hellohello"
        assert "user_message_chunk" in client.kinds
        request = ResumeSessionRequest(cwd="/", session_id=session)
        await connection.resume_session(cwd=request.cwd, session_id=request.session_id)
        await connection.prompt(session_id=session, prompt=says("say again"))
        assert client.text == "hellohelloagain"

    run(home, work)


def test_it_sets_an_option(home: Home) -> None:
    async def work(connection: Any, client: SdkClient) -> None:  # noqa: ANN401 - the SDK's
        session = await connection.new_session(cwd="/", mcp_servers=[])
        answer = await connection.set_config_option(
            session_id=session.session_id, config_id="understudy.busy_mode", value="steer"
        )

        options = {one.id: one.current_value for one in answer.config_options}
        assert options["understudy.busy_mode"] == "steer"

    run(home, work)


def test_an_error_has_the_hint(home: Home) -> None:
    async def work(connection: Any, client: SdkClient) -> None:  # noqa: ANN401 - the SDK's
        with pytest.raises(acp.RequestError) as refused:
            await connection.load_session(cwd="/", session_id="s_nobody", mcp_servers=[])

        assert refused.value.code == -32002
        data: Any = refused.value.data
        assert data["hint"]

    run(home, work)
