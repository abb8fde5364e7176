"""Sessions of an editor: opened, listed, loaded, resumed, closed, deleted; and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import supervisor
from tests.support.acp_editor import Editor, Refused, editing, opened_supervisor

INVALID_PARAMS = -32602
NOT_FOUND = -32002
AGENT, BUSY, MODE = (f"understudy.{name}" for name in ("agent", "busy_mode", "permission_mode"))


def option(options: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(one for one in options if one["id"] == name)


def values(options: list[dict[str, Any]], name: str) -> list[str]:
    return [one["value"] for one in option(options, name)["options"]]


async def open_again(editor: Editor, method: str, session: str) -> Any:  # noqa: ANN401 - JSON
    return await editor.call(f"session/{method}", sessionId=session, cwd="/", mcpServers=[])


async def choose(editor: Editor, session: str, name: str, value: str) -> list[dict[str, Any]]:
    answer = await editor.call(
        "session/set_config_option", sessionId=session, configId=name, value=value
    )
    found: list[dict[str, Any]] = answer["configOptions"]
    return found


async def test_a_new_session_works_in_the_folder(
    sup: supervisor.Supervisor, editor: Editor, tmp_path: Path
) -> None:
    session = await editor.new(str(tmp_path))

    info = await sup.session(session).info()
    assert (info.workspace, info.agent) == (str(tmp_path), "scripted")


async def test_the_answer_comes_before_any_notification(editor: Editor) -> None:
    request = await editor.ask("session/new", cwd="/", mcpServers=[])
    await editor.answer_to(request)
    await editor.until(lambda: editor.told)

    assert editor.order.index(request) < editor.order.index("session/update")


async def test_an_unknown_agent_is_refused(sup: supervisor.Supervisor) -> None:
    async with editing(sup, agent="nobody") as editor:
        await editor.start()
        with pytest.raises(Refused, match="nobody") as refused:
            await editor.new()

    assert refused.value.code == INVALID_PARAMS
    assert "echo" in refused.value.data["hint"]


async def test_without_an_agent_the_first_own_one_is_used() -> None:
    @supervisor.agent("mine")
    async def mine(turn: supervisor.Turn) -> str:
        return "mine"

    async with opened_supervisor(agents=[mine]) as sup, editing(sup, agent=None) as editor:
        await editor.start()
        assert (await sup.session(await editor.new()).info()).agent == "mine"


# The list ---------------------------------------------------------------------------------


async def listed(editor: Editor, **params: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await editor.call("session/list", **params))["sessions"]
    return rows


async def test_the_list_has_roots_that_are_not_archived(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    parent = await sup.create("echo", name="parent", workspace="/")
    await parent.spawn("echo", "child")
    gone = await sup.create("echo")
    await gone.stop()
    await gone.archive()

    (row,) = await listed(editor)

    assert (row["sessionId"], row["title"], row["cwd"]) == (parent.id, "parent", "/")
    assert row["updatedAt"].endswith("Z")


async def test_the_list_is_limited_to_a_folder(
    sup: supervisor.Supervisor, editor: Editor, tmp_path: Path
) -> None:
    await sup.create("echo", workspace="/")
    session = await editor.new(str(tmp_path))

    assert [row["sessionId"] for row in await listed(editor, cwd=str(tmp_path))] == [session]


async def test_the_list_is_limited_to_the_tag(sup: supervisor.Supervisor) -> None:
    await sup.create("echo")
    async with editing(sup, tag="work") as editor:
        await editor.start()
        session = await editor.new()

        assert [row["sessionId"] for row in await listed(editor)] == [session]
        assert (await sup.session(session).info()).tags == ("work",)


async def test_a_long_list_has_pages(sup: supervisor.Supervisor, editor: Editor) -> None:
    for _ in range(101):
        await sup.create("echo")

    page = await editor.call("session/list")
    rest = await editor.call("session/list", cursor=page["nextCursor"])

    assert (len(page["sessions"]), len(rest["sessions"])) == (100, 1)
    assert "nextCursor" not in rest


# Load and resume --------------------------------------------------------------------------


async def test_a_load_tells_everything_before_it_answers(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await editor.prompt(session, "think first\nsay hello\ntool build 0\nsay you")
    await editor.prompt(session, "say again")
    async with editing(sup) as other:
        await other.start()
        request = await other.ask("session/load", sessionId=session, cwd="/", mcpServers=[])
        await other.answer_to(request)

        history = other.order[1 : other.order.index(request)]
        assert set(history) == {"session/update"}
        del other.told[len(history) :]
        assert other.text("user_message_chunk").startswith("think first")
        assert other.text() == "helloyouagain"
        (call,) = other.updates("tool_call")
        assert other.updates("tool_call_update")[-1]["toolCallId"] == call["toolCallId"]
        assert other.text("agent_thought_chunk") == "first"


async def test_a_loaded_session_goes_on_live(sup: supervisor.Supervisor, editor: Editor) -> None:
    session = await editor.new()
    await editor.begin(session, "say one\nsleep 0.3\nsay two")
    await editor.until(lambda: editor.text() == "one")
    async with editing(sup) as other:
        await other.start()
        await open_again(other, "load", session)
        await other.until(lambda: other.text() == "onetwo")

        assert other.text("user_message_chunk").startswith("say one")


async def test_a_resume_tells_nothing_of_the_past(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await editor.prompt(session, "say before")
    async with editing(sup) as other:
        await other.start()
        await open_again(other, "resume", session)
        await other.prompt(session, "say after")

        assert other.text() == "after"


async def test_a_stopped_session_is_started_by_a_prompt(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await sup.create("scripted")
    await session.stop()
    await open_again(editor, "load", session.id)

    assert await editor.prompt(session.id, "say hello") == {"stopReason": "end_turn"}


async def test_a_prompt_to_a_session_that_is_not_open_opens_it(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await sup.create("scripted")

    assert await editor.prompt(session.id, "say hello") == {"stopReason": "end_turn"}
    assert editor.text() == "hello"


async def test_an_archived_session_can_be_read(sup: supervisor.Supervisor, editor: Editor) -> None:
    session = await sup.create("scripted")
    await session.prompt("say hello")
    await session.stop()
    await session.archive()
    await open_again(editor, "load", session.id)

    assert editor.text() == "hello"
    with pytest.raises(Refused):
        await editor.prompt(session.id, "say more")


# Close and delete -------------------------------------------------------------------------


async def test_a_closed_session_is_stopped_and_its_turn_cancelled(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    request = await editor.begin(session, "say one\nsleep 60")
    await editor.until(lambda: editor.text() == "one")

    assert await editor.call("session/close", sessionId=session) == {}
    assert await editor.answer_to(request) == {"stopReason": "cancelled"}
    assert (await sup.session(session).info()).phase == "stopped"
    assert [row["sessionId"] for row in await listed(editor)] == [session]


async def test_a_closed_session_may_go_on(sup: supervisor.Supervisor) -> None:
    async with editing(sup, stop_on_close=False) as editor:
        await editor.start()
        session = await editor.new()
        await editor.begin(session, "say one\nsleep 60")
        await editor.until(lambda: editor.text() == "one")
        await editor.call("session/close", sessionId=session)

        assert (await sup.session(session).info()).phase == "running"


async def test_a_session_can_be_deleted_twice(sup: supervisor.Supervisor, editor: Editor) -> None:
    session = await editor.new()
    request = await editor.begin(session, "sleep 60")
    for _ in range(2):
        assert await editor.call("session/delete", sessionId=session) == {}

    assert not await sup.exists(session)
    assert await editor.answer_to(request) == {"stopReason": "cancelled"}


async def test_a_session_deleted_elsewhere_is_not_found(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    request = await editor.begin(session, "sleep 60")
    await editor.until(lambda: len(editor.told) > 1)
    await sup.delete(session)

    assert await editor.answer_to(request) == {"stopReason": "cancelled"}
    with pytest.raises(Refused) as refused:
        await editor.prompt(session, "say hello")
    assert refused.value.code == NOT_FOUND


# Options ----------------------------------------------------------------------------------


async def test_the_options_are_in_the_answer(editor: Editor) -> None:
    options = (await editor.call("session/new", cwd="/", mcpServers=[]))["configOptions"]

    assert option(options, AGENT)["currentValue"] == "scripted"
    assert {"echo", "scripted"} <= set(values(options, AGENT))
    assert values(options, BUSY) == ["queue", "steer", "interrupt", "reject"]
    assert option(options, MODE)["currentValue"] == "approve_reads"


async def test_the_agent_can_be_chosen_until_the_first_prompt(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()

    options = await choose(editor, session, AGENT, "echo")

    assert option(options, AGENT)["currentValue"] == "echo"
    await editor.prompt(session, "hello there")
    assert editor.text(session_id=session) == "hello there"
    with pytest.raises(Refused, match="before the first prompt"):
        await choose(editor, session, AGENT, "scripted")
    assert (await sup.stats()).sessions == 1


async def test_a_session_with_another_agent_keeps_its_id(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await choose(editor, session, AGENT, "echo")
    await choose(editor, session, MODE, "approve_all")
    await editor.prompt(session, "hello")
    async with editing(sup) as other:
        await other.start()
        assert [row["sessionId"] for row in await listed(other)] == [session]
        await open_again(other, "load", session)

        assert other.text() == "hello"
        assert await other.call("session/delete", sessionId=session) == {}
    assert (await sup.stats()).sessions == 0


async def test_the_permission_mode_is_that_of_the_session(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await choose(editor, session, MODE, "approve_all")

    await editor.prompt(session, "ask delete")

    assert editor.text().strip() == "delete: allowed"
    assert editor.asked == []


async def test_the_first_prompt_fixes_the_options(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await editor.until(lambda: editor.updates("available_commands_update"))
    await sup.session(session).send("say hello")
    await editor.until(lambda: editor.updates("config_option_update"))

    (update,) = editor.updates("config_option_update")
    assert values(update["configOptions"], AGENT) == ["scripted"]


async def test_the_busy_mode_decides_what_a_second_prompt_does(editor: Editor) -> None:
    session = await editor.new()
    await choose(editor, session, BUSY, "interrupt")
    first = await editor.begin(session, "say one\nsleep 60")
    await editor.until(lambda: editor.text() == "one")

    assert await editor.prompt(session, "say two") == {"stopReason": "end_turn"}
    assert await editor.answer_to(first) == {"stopReason": "cancelled"}
    await choose(editor, session, BUSY, "reject")
    await editor.begin(session, "say three\nsleep 60")
    await editor.until(lambda: editor.text().endswith("three"))
    with pytest.raises(Refused) as refused:
        await editor.prompt(session, "say four")
    assert refused.value.data["code"] == "input_refused"


@pytest.mark.parametrize(
    ("name", "value"),
    [(AGENT, "nobody"), (BUSY, "later"), (MODE, 5), ("model", "large"), (7, "queue")],
)
async def test_a_wrong_option_is_refused(editor: Editor, name: Any, value: Any) -> None:  # noqa: ANN401
    session = await editor.new()

    with pytest.raises(Refused) as refused:
        await choose(editor, session, name, value)

    assert refused.value.code == INVALID_PARAMS


async def test_there_are_no_modes(editor: Editor) -> None:
    with pytest.raises(Refused, match="configOptions"):
        await editor.call("session/set_mode", sessionId=await editor.new(), modeId="plan")


# Options of the agent ---------------------------------------------------------------------

ROBOT = supervisor.scripted_process("robot", flags=("--config-options", "--modes"))


async def test_options_of_the_agent_come_first() -> None:
    async with opened_supervisor(agents=[ROBOT]) as sup, editing(sup, agent="robot") as editor:
        await editor.start()
        options = (await editor.call("session/new", cwd="/", mcpServers=[]))["configOptions"]

        names = [one["id"] for one in options]
        assert {"model", "mode"} <= set(names[:-3])
        assert names[-3:] == [AGENT, BUSY, MODE]


async def test_an_option_of_the_agent_is_set_for_the_next_turn() -> None:
    async with opened_supervisor(agents=[ROBOT]) as sup, editing(sup, agent="robot") as editor:
        await editor.start()
        session = await editor.new()
        options = (await open_again(editor, "resume", session))["configOptions"]
        other = next(
            one
            for one in values(options, "model")
            if one != option(options, "model")["currentValue"]
        )

        chosen = await choose(editor, session, "model", other)
        assert option(chosen, "model")["currentValue"] == other
        await editor.prompt(session, "choices")
        assert other in editor.text()
        with pytest.raises(Refused) as refused:
            await choose(editor, session, "model", "no such model")
        assert refused.value.code == INVALID_PARAMS


async def test_an_option_changed_elsewhere_is_told() -> None:
    async with opened_supervisor(agents=[ROBOT]) as sup, editing(sup, agent="robot") as editor:
        await editor.start()
        session = await editor.new()
        await editor.until(lambda: editor.updates("available_commands_update"))
        await sup.session(session).set(options={"mode": "ask"})
        await editor.until(lambda: editor.updates("config_option_update"))

        options = editor.updates("config_option_update")[-1]["configOptions"]
        assert option(options, "mode")["currentValue"] == "ask"


async def test_switches_are_for_clients_that_show_them() -> None:
    async with opened_supervisor(agents=[ROBOT]) as sup, editing(sup, agent="robot") as editor:
        await editor.start(session={"configOptions": {"boolean": {}}})
        options = (await editor.call("session/new", cwd="/", mcpServers=[]))["configOptions"]

        assert option(options, "brief")["type"] == "boolean"


# Titles, and what is unstable -------------------------------------------------------------


async def test_the_title_of_the_first_prompt_is_told(editor: Editor) -> None:
    session = await editor.new()
    await editor.prompt(session, "say hello")
    await editor.until(lambda: editor.updates("session_info_update"))

    assert editor.updates("session_info_update") == [
        {"sessionUpdate": "session_info_update", "title": "say hello"}
    ]


async def test_a_title_set_elsewhere_is_told_once(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await editor.until(lambda: editor.updates("available_commands_update"))
    await sup.session(session).set(title="Mine")
    await editor.prompt(session, "say hello")

    titles = [one["title"] for one in editor.updates("session_info_update")]
    assert titles == ["Mine"]


async def test_unstable_methods(sup: supervisor.Supervisor) -> None:
    async with editing(sup, unstable=True) as editor:
        await editor.start()
        session = await editor.new()
        await editor.prompt(session, "say hello")

        answer = await editor.call("session/set_title", sessionId=session, title=" a  title ")
        assert answer == {"title": "a title"}
        fork = await editor.call("session/fork", sessionId=session, cwd="/", mcpServers=[])
        await editor.prompt(fork["sessionId"], "say fork")
        assert editor.text(session_id=fork["sessionId"]) == "fork"
        status = await editor.call("session/status", sessionId=session)
        assert status["status"] == "open"
        assert await editor.call("session/archive", sessionId=session) == {}
        assert [row["sessionId"] for row in await listed(editor)] == [fork["sessionId"]]
        assert await editor.call("session/unarchive", sessionId=session) == {}
        status = await editor.call("session/status", sessionId=session)
        assert status["status"] == "saved"


async def test_an_editor_is_told_that_an_agent_takes_no_servers(
    sup: supervisor.Supervisor,
) -> None:
    servers = [{"name": "files", "command": "files", "args": [], "env": []}]
    async with editing(sup) as editor:
        await editor.start(session={"notices": {}})
        await editor.call("session/new", cwd="/", mcpServers=servers)
        await editor.until(lambda: editor.updates("notice"))

        (notice,) = editor.updates("notice")
        assert notice["severity"] == "warning"
        assert "files" in notice["description"]
