"""The first steps of a connection, what is refused, and its end."""

from __future__ import annotations

import pytest
import trio

import supervisor
from tests.support.acp_editor import Editor, Refused, accepted, editing

NOT_INITIALIZED = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
NOT_FOUND = -32002
TEXT = [{"type": "text", "text": "say something"}]
FOLDER = "/tmp"  # noqa: S108 - any folder that exists


@pytest.mark.parametrize("asked", [1, 2, 0, 65535])
async def test_every_version_is_answered_with_ours(sup: supervisor.Supervisor, asked: int) -> None:
    async with editing(sup) as editor:
        answer = await editor.call("initialize", protocolVersion=asked, clientCapabilities={})

        assert answer["protocolVersion"] == 1
        assert answer["agentInfo"]["name"] == "understudy"


@pytest.mark.parametrize("wrong", [{}, {"protocolVersion": "1"}, {"protocolVersion": True}])
async def test_a_version_that_is_no_number_is_refused(
    sup: supervisor.Supervisor, wrong: dict[str, object]
) -> None:
    async with editing(sup) as editor:
        with pytest.raises(Refused) as refused:
            await editor.call("initialize", **wrong)

        assert refused.value.code == INVALID_PARAMS
        await editor.start()


async def test_the_answer_has_the_capabilities(editor: Editor, sup: supervisor.Supervisor) -> None:
    async with editing(sup, unstable=True) as other:
        answer = await other.start()

        assert answer["agentCapabilities"]["loadSession"] is True
        sessions = answer["agentCapabilities"]["sessionCapabilities"]
        stable = {"list", "resume", "close", "delete"}
        assert sessions.keys() == stable | {"fork", "archive", "status", "title"}
        assert answer["_meta"]["steering"] == {"supported": True}


@pytest.mark.parametrize("method", ["session/new", "session/prompt", "session/list"])
async def test_nothing_is_done_before_initialize(sup: supervisor.Supervisor, method: str) -> None:
    async with editing(sup) as editor:
        with pytest.raises(Refused) as refused:
            await editor.call(method, cwd="/", mcpServers=[])

        assert refused.value.code == NOT_INITIALIZED
        assert (await sup.stats()).sessions == 0


async def test_a_second_initialize_is_refused(editor: Editor) -> None:
    with pytest.raises(Refused) as refused:
        await editor.start()

    assert refused.value.code == NOT_INITIALIZED


@pytest.mark.parametrize(
    "method", ["_mine/extension", "session/fork", "session/nothing", "logout", "nes/start"]
)
async def test_an_unknown_method_is_refused(editor: Editor, method: str) -> None:
    with pytest.raises(Refused) as refused:
        await editor.call(method, sessionId="s_1")

    assert refused.value.code == UNKNOWN_METHOD


async def test_unknown_notifications_are_ignored(editor: Editor) -> None:
    await editor.notify("_mine/note", x=1)
    await editor.notify("session/nothing")
    await editor.notify("session/cancel", sessionId="s_nobody")
    await editor.notify("session/cancel")

    assert (await editor.call("session/list"))["sessions"] == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/new", {}),
        ("session/new", {"cwd": "relative", "mcpServers": []}),
        ("session/new", {"cwd": 5, "mcpServers": []}),
        ("session/new", {"cwd": FOLDER, "mcpServers": "none"}),
        ("session/load", {"cwd": FOLDER, "mcpServers": []}),
        ("session/list", {"cursor": 5}),
        ("session/list", {"cursor": "nonsense"}),
        ("session/prompt", {"sessionId": "s_1", "prompt": "text"}),
        ("session/prompt", {"sessionId": "s_1", "prompt": []}),
        ("session/prompt", {"sessionId": "s_1", "prompt": [{"type": "text"}]}),
        ("session/prompt", {"sessionId": "s_1", "prompt": [{"type": "hologram"}]}),
        ("session/prompt", {"sessionId": "s_1", "prompt": [{"type": []}]}),
        ("session/prompt", {"sessionId": "s_1", "prompt": ["text"]}),
        ("session/prompt", {"prompt": [{"type": "text", "text": "hello"}]}),
        ("session/close", {}),
        ("session/delete", {"sessionId": 7}),
        ("authenticate", {"methodId": "magic"}),
    ],
)
async def test_wrong_params_are_refused(
    editor: Editor, method: str, params: dict[str, object]
) -> None:
    with pytest.raises(Refused) as refused:
        await editor.call(method, **params)

    assert refused.value.code == INVALID_PARAMS


@pytest.mark.parametrize("session_id", ["s_nobodynobody", "no id", "../../etc/passwd", "x" * 150])
@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/close"])
async def test_an_unknown_session_is_not_found(
    editor: Editor, method: str, session_id: str
) -> None:
    with pytest.raises(Refused) as refused:
        await editor.call(method, sessionId=session_id, cwd=FOLDER, mcpServers=[])

    assert refused.value.code == NOT_FOUND
    assert refused.value.data["code"] == "session_not_found"


async def test_a_prompt_to_an_unknown_session_is_refused(editor: Editor) -> None:
    with pytest.raises(Refused) as refused:
        await editor.prompt("s_nobodynobody", "hello")

    assert refused.value.code == NOT_FOUND


async def test_params_that_are_no_object_are_refused(editor: Editor) -> None:
    for number, params in enumerate(([], "x", 5)):
        await editor.request(70 + number, "session/new", params)
        with pytest.raises(Refused) as refused:
            await editor.answer_to(70 + number)
        assert refused.value.code == INVALID_PARAMS


# Framing ----------------------------------------------------------------------------------


async def test_lines_that_are_no_messages_do_no_harm(editor: Editor) -> None:
    await editor.write(b'rubbish\n\n{\n[]\n[1,2]\n{}\n5\nnull\n"x"\n\xff\xfe\n{"id":{}}\n')

    assert (await editor.call("session/list"))["sessions"] == []


async def test_a_message_may_arrive_in_pieces(editor: Editor) -> None:
    line = b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s_1"}}\r\n'
    for byte in line:
        await editor.write(bytes([byte]))

    assert (await editor.call("session/list"))["sessions"] == []


async def test_an_answer_to_nothing_is_ignored(editor: Editor) -> None:
    await editor.write(b'{"jsonrpc":"2.0","id":99,"result":{}}\n')

    assert (await editor.call("session/list"))["sessions"] == []


async def test_ids_may_be_text(editor: Editor) -> None:
    await editor.request("first", "session/list", {})

    assert await editor.answer_to("first") == {"sessions": []}


async def test_a_repeated_id_is_refused(editor: Editor) -> None:
    session = await editor.new()
    request = await editor.begin(session, "sleep 60")
    await editor.request(request, "session/prompt", {"sessionId": session, "prompt": TEXT})

    with pytest.raises(Refused) as refused:
        await editor.answer_to(request)

    assert refused.value.code == NOT_INITIALIZED


# The end ----------------------------------------------------------------------------------


async def test_the_turn_goes_on_when_the_editor_leaves(sup: supervisor.Supervisor) -> None:
    async with editing(sup) as editor:
        await editor.start()
        session = await editor.new()
        await editor.begin(session, "say one\nsleep 0.2\nsay two")
        await editor.until(lambda: editor.text() == "one")

    info = await sup.session(session).wait_idle()
    assert info.last_outcome is not None
    assert info.last_outcome.outcome == "completed"


async def test_queued_prompts_run_without_their_editor(sup: supervisor.Supervisor) -> None:
    async with editing(sup) as editor:
        await editor.start()
        session = await editor.new()
        await editor.begin(session, "sleep 0.2")
        await editor.begin(session, "say later")
        await accepted(sup.session(session), 2)

    info = await sup.session(session).wait_idle()
    assert info.turns == 2


async def test_the_last_answers_are_written(sup: supervisor.Supervisor) -> None:
    async with editing(sup) as editor:
        await editor.start()
        request = await editor.ask("session/list")
        half = editor._stream
        assert isinstance(half, trio.StapledStream)
        await half.send_stream.aclose()  # only our writing end

        assert await editor.answer_to(request) == {"sessions": []}


async def test_the_end_is_prompt_though_a_turn_runs(sup: supervisor.Supervisor) -> None:
    async with editing(sup) as editor:
        await editor.start()
        await editor.begin(await editor.new(), "sleep 60")
        began = trio.current_time()
        await editor.leave()
        await editor.until_over()

    assert trio.current_time() - began < 2
