"""The command as a process, with a real daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson
import pytest
import trio

from tests.support.acp_editor import Editor, Refused
from tests.support.acp_editor_process import (
    command_of,
    editor_process,
    environ_of,
    run_command,
)
from tests.support.daemon_in_process import Home
from tests.support.daemon_process import AGENTS, Daemon, daemon

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
NO_DAEMON = 5


@pytest.fixture
def home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="us-") as made:
        found = Home(Path(made))
        found.write(AGENTS)
        yield found


@pytest.fixture
def served(home: Home) -> Iterator[Daemon]:
    with daemon(home) as running:
        yield running


@pytest.fixture
async def editor(home: Home, served: Daemon) -> AsyncIterator[Editor]:
    async with editor_process(home, "--agent", "robot") as started:
        await started.editor.start()
        yield started.editor


async def test_a_whole_conversation_with_an_agent_process(home: Home, editor: Editor) -> None:
    session = await editor.new(str(home.folder))

    assert await editor.prompt(session, "say hello\ntool build 0") == {"stopReason": "end_turn"}
    assert editor.text() == "hello"
    (call,) = editor.updates("tool_call")
    assert editor.updates("tool_call_update")[-1]["toolCallId"] == call["toolCallId"]
    request = await editor.begin(session, "ask delete")
    await editor.allow(await editor.asked_for("session/request_permission"))
    assert await editor.answer_to(request) == {"stopReason": "end_turn"}


async def test_the_daemon_is_started_if_none_listens(home: Home) -> None:
    async with editor_process(home, "--agent", "echo") as started:
        await started.editor.start()
        session = await started.editor.new()
        await started.editor.prompt(session, "hello")
        assert started.editor.text() == "hello"
    try:
        assert session in await run_command(home, "ps", "--json")
    finally:
        await run_command(home, "down")


async def test_without_a_daemon_nothing_is_written(home: Home) -> None:
    done = await trio.run_process(
        command_of("--no-start"),
        stdin=INITIALIZE,
        env=environ_of(home),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (NO_DAEMON, b"")
    assert b"no daemon" in done.stderr


async def test_the_turn_outlives_a_killed_process(home: Home, served: Daemon) -> None:
    async with editor_process(home, "--agent", "robot") as first:
        await first.editor.start()
        session = await first.editor.new()
        await first.editor.begin(session, "say one\nsleep 1\nsay two\ntool build 0\nsay three")
        await first.editor.begin(session, "say four")
        await first.editor.until(lambda: first.editor.text() == "one")
        first.kill()
        await first.ended()

    async with editor_process(home) as second:
        editor = second.editor
        await editor.start()
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        await editor.until(lambda: editor.text().endswith("four"))

        assert editor.text() == "onetwothreefour"
        assert len(editor.updates("tool_call")) == 1


async def test_two_editors_and_the_command_line_on_one_session(home: Home, served: Daemon) -> None:
    async with editor_process(home, "--agent", "robot") as left, editor_process(home) as right:
        first, second = left.editor, right.editor
        await first.start()
        await second.start()
        session = await first.new()
        await second.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        request = await first.begin(session, "say one\nsleep 0.3")
        await second.until(lambda: second.text() == "one")
        other = await second.begin(session, "say two")
        await run_command(home, "send", session, "say three")

        await first.answer_to(request)
        await second.answer_to(other)
        for one in (first, second):
            await one.until(lambda one=one: one.text() == "onetwothree")  # type: ignore[misc]
        assert "say two" in first.text("user_message_chunk")
        assert "say two" not in second.text("user_message_chunk")


async def test_a_killed_daemon_loses_the_turn_and_not_the_session(home: Home) -> None:
    with daemon(home) as first:
        async with editor_process(home, "--agent", "robot") as started:
            editor = started.editor
            await editor.start()
            session = await editor.new()
            request = await editor.begin(session, "say one\nsleep 60")
            await editor.until(lambda: editor.text() == "one")
            first.kill()
            with daemon(home):
                with pytest.raises(Refused) as refused:
                    await editor.answer_to(request)

                assert refused.value.data["code"] == "turn_lost"
                assert await editor.prompt(session, "say two") == {"stopReason": "end_turn"}
                assert editor.text() == "onetwo"


async def test_a_prompt_during_a_restart_is_sent_once(home: Home) -> None:
    with daemon(home) as first:
        async with editor_process(home, "--agent", "robot") as started:
            editor = started.editor
            await editor.start()
            session = await editor.new()
            first.kill()
            request = await editor.begin(session, "say once")
            with daemon(home):
                assert await editor.answer_to(request) == {"stopReason": "end_turn"}
                assert editor.text() == "once"


# A client that misbehaves -----------------------------------------------------------------


async def test_a_client_that_never_reads_slows_no_session(home: Home, served: Daemon) -> None:
    async with (
        editor_process(home, "--agent", "scripted", reads=False) as deaf,
        editor_process(home, "--agent", "scripted") as other,
    ):
        editor = other.editor
        await editor.start()
        session = await editor.new()
        await deaf.editor.write(INITIALIZE)
        line = {"sessionId": session, "cwd": "/", "mcpServers": []}
        await deaf.editor.ask("session/load", **line)
        await editor.prompt(session, "flood 30000")

        assert len(editor.text()) > 2_000_000
        deaf.kill()


async def test_a_slow_client_misses_nothing(home: Home, served: Daemon) -> None:
    async with editor_process(home, "--agent", "scripted", reads=False) as slow:
        editor = slow.editor
        async with editor_process(home, "--agent", "scripted") as other:
            await other.editor.start()
            session = await other.editor.new()
            await editor.ask("initialize", protocolVersion=1)
            await editor.ask("session/load", sessionId=session, cwd="/", mcpServers=[])
            await other.editor.prompt(session, "flood 30000")
            whole = other.editor.text()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(editor.read)
            await editor.until(lambda: len(editor.text()) >= len(whole))
            nursery.cancel_scope.cancel()

    assert editor.text() == whole


async def test_a_client_that_floods_is_served_in_order(home: Home, editor: Editor) -> None:
    session = await editor.new()
    for _ in range(3_000):
        await editor.notify("session/cancel", sessionId=session)
    await editor.write(b"half a line of rubbish" * 1000 + b"\n")
    lists = [await editor.ask("session/list") for _ in range(300)]
    # Answered or refused: a client may have 256 requests open, and each is answered.
    await editor.until(lambda: all(map(editor.is_answered, lists)))

    assert await editor.prompt(session, "say hello") == {"stopReason": "end_turn"}


@pytest.mark.parametrize("ends", ["eof", "term"])
async def test_the_exit_is_prompt_during_a_turn(home: Home, served: Daemon, ends: str) -> None:
    async with editor_process(home, "--agent", "robot") as started:
        await started.editor.start()
        session = await started.editor.new()
        await started.editor.begin(session, "say one\nsleep 60")
        await started.editor.until(lambda: started.editor.text() == "one")
        began = trio.current_time()
        if ends == "eof":
            assert started.process.stdin is not None
            await started.process.stdin.aclose()
        else:
            started.process.send_signal(signal.SIGTERM)
        await started.ended()

        assert trio.current_time() - began < 2
    assert orjson.loads(await run_command(home, "show", session, "--json"))["phase"] == "running"


async def test_a_client_that_leaves_without_reading_is_noticed(home: Home, served: Daemon) -> None:
    async with editor_process(home, "--agent", "scripted", reads=False) as started:
        editor = started.editor
        await editor.ask("initialize", protocolVersion=1)
        for _ in range(60):
            await editor.ask("session/new", cwd="/", mcpServers=[])
        with trio.move_on_after(2):
            while True:
                await editor.ask("session/list")
        assert started.process.stdin is not None
        await started.process.stdin.aclose()
        began = trio.current_time()
        await started.ended()

    assert trio.current_time() - began < 10


async def test_input_may_be_a_file(home: Home, served: Daemon) -> None:
    script = home.folder / "script"
    script.write_bytes(INITIALIZE)
    with script.open("rb") as given:
        done = await trio.run_process(
            command_of(), stdin=given, env=environ_of(home), capture_stdout=True
        )

    assert orjson.loads(done.stdout)["result"]["protocolVersion"] == 1


async def test_the_sessions_may_run_in_the_process_itself(home: Home) -> None:
    async with editor_process(home, "--embedded", "--agent", "robot") as started:
        editor = started.editor
        await editor.start()
        session = await editor.new()

        assert await editor.prompt(session, "say hello") == {"stopReason": "end_turn"}
        assert editor.text() == "hello"
    assert not os.path.exists(home.socket)  # noqa: ASYNC240, PTH110 - once, at the end


def test_what_is_printed_by_mistake_is_no_message(home: Home) -> None:
    program = (
        "from supervisor.acp_agent.standard_streams import take_standard_streams\n"
        "import os\n"
        "with take_standard_streams():\n"
        "    os.write(1, b'a mistake')\n"
        "os.write(1, b'after')\n"
    )
    done = subprocess.run(
        [*command_of()[:1], "-c", program],
        env=environ_of(home),
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )

    assert (done.stdout, done.stderr) == (b"after", b"a mistake")
