"""What is done to sessions over HTTP: steered, interrupted, spawned from, stopped, brought back."""

from __future__ import annotations

import httpx
import pytest
import trio
from starlette.types import ASGIApp

from actors.testing import settle
from supervisor import Limits, Phase, Session, Supervisor
from supervisor.api.routes.control import STOP_SECONDS
from tests.support.asgi_exchange import Exchange, scope_of
from tests.support.fake_agents import AgentRun, FakeAgent, records, waiting_texts


@pytest.fixture
def at(session: Session) -> str:
    return f"/v1/sessions/{session.id}"


# Interrupts ------------------------------------------------------------------------------------


async def test_the_running_turn_is_interrupted_and_the_report_says_so(
    client: httpx.AsyncClient, at: str, run: AgentRun, session: Session
) -> None:
    answer = await client.post(f"{at}/interrupt", json={"reason": "enough"})

    assert answer.status_code == 200
    report = answer.json()
    assert (report["scope"], report["matched"], report["stopped"]) == ("turn", 1, 1)
    (said,) = await records(session, "interrupted")
    assert said.body["reason"] == "enough"


async def test_a_tool_call_is_interrupted_alone(
    client: httpx.AsyncClient, at: str, run: AgentRun, session: Session
) -> None:
    call = await run.open_call("bash")

    answer = await client.post(f"{at}/interrupt", json={"scope": "tool_call", "call_id": call.id})

    assert (answer.json()["scope"], answer.json()["stopped"]) == ("tool_call", 1)
    assert (await session.info()).phase is Phase.RUNNING


async def test_an_interrupt_of_a_turn_that_never_was_reports_unknown(
    client: httpx.AsyncClient, at: str, run: AgentRun, session: Session
) -> None:
    answer = await client.post(f"{at}/interrupt", json={"turn_id": "turn_gone"})

    assert answer.status_code == 200
    body = answer.json()
    assert (body["stopped"], body["already_over"], body["unknown"]) == (0, 0, 1)
    assert (await session.info()).turn_id == run.turn.id


async def test_replace_with_runs_next(
    client: httpx.AsyncClient, at: str, run: AgentRun, session: Session, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    given = {"replace_with": "instead", "queued": "cancel"}

    await client.post(f"{at}/interrupt", json=given)

    assert (await fake_agent.next_run()).turn.text == "instead"
    assert await waiting_texts(session) == []


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"scope": "planet"}, "$.scope"),
        ({"scope": "tool_call"}, "$.call_id"),
        ({"scope": "session", "turn_id": "t"}, "$.turn_id"),
        ({"scope": "turn", "call_id": "c"}, "$.call_id"),
        ({"turn_id": 5}, "$.turn_id"),
        ({"replace_with": " "}, "$.replace_with"),
        ({"queued": "maybe"}, "$.queued"),
        ({"id": "x"}, "$.id"),
    ],
)
async def test_an_invalid_interrupt_is_refused(
    client: httpx.AsyncClient, at: str, given: object, path: str
) -> None:
    answer = await client.post(f"{at}/interrupt", json=given)

    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["paths"]] == [path]


async def test_an_interrupt_of_an_idle_session_changes_nothing(
    client: httpx.AsyncClient, at: str
) -> None:
    for scope in ("turn", "session", "tree"):
        answer = await client.post(f"{at}/interrupt", json={"scope": scope})
        assert (answer.status_code, answer.json()["matched"]) == (200, 0)


# Steering and spawning -------------------------------------------------------------------------


async def test_an_idle_session_cannot_be_steered(client: httpx.AsyncClient, at: str) -> None:
    answer = await client.post(f"{at}/steer", json={"text": "left"})

    assert (answer.status_code, answer.json()["code"]) == (409, "not_running")


async def test_a_child_is_spawned_once_for_one_key(
    client: httpx.AsyncClient, at: str, session: Session
) -> None:
    given = {"agent": "fake", "text": "go", "role": "helper", "ttl_seconds": 60}
    answers = [
        await client.post(f"{at}/spawn", json=given, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]

    assert {answer.status_code for answer in answers} == {201}
    (child,) = {answer.json()["id"] for answer in answers}
    info = answers[0].json()
    assert (info["parent"], info["role"], info["depth"]) == (session.id, "helper", 1)
    assert (await session.info()).children == (child,)


async def test_a_refused_spawn_names_the_limit(client: httpx.AsyncClient, sup: Supervisor) -> None:
    parent = await sup.create("echo", limits=Limits(max_children=0))

    answer = await client.post(
        f"/v1/sessions/{parent.id}/spawn", json={"agent": "echo", "text": "go"}
    )

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (429, "spawn_refused")
    assert (problem["limit"], problem["used"], problem["allowed"]) == ("max_children", 0, 0)
    assert problem["hint"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"agent": "nobody", "text": "go"}, 404),
        ({"agent": "echo"}, 422),
        ({"agent": "echo", "text": " "}, 422),
        ({"agent": "echo", "text": "go", "key": "a:b:c"}, 422),
        ({"agent": "echo", "text": "go", "lifetime": "for ever"}, 422),
    ],
)
async def test_an_invalid_spawn_is_refused(
    client: httpx.AsyncClient, at: str, given: object, status: int
) -> None:
    assert (await client.post(f"{at}/spawn", json=given)).status_code == status


# Stopped and brought back ----------------------------------------------------------------------


async def test_a_session_is_stopped_archived_and_resumed(
    client: httpx.AsyncClient, at: str
) -> None:
    phases = []
    for verb in ("stop", "archive", "unarchive", "resume", "clear"):
        answer = await client.post(f"{at}/{verb}")
        assert answer.status_code == 200, verb
        phases.append((answer.json()["phase"], answer.json()["archived"]))

    assert phases == [
        ("stopped", False),
        ("stopped", True),
        ("stopped", False),
        ("idle", False),
        ("idle", False),
    ]


async def test_a_long_stop_is_202_and_continues(
    client: httpx.AsyncClient, at: str, run: AgentRun, session: Session
) -> None:
    began = trio.current_time()

    answer = await client.post(f"{at}/stop", json={"when": "after_turn"})

    assert answer.status_code == 202
    assert answer.json()["phase"] != "stopped"
    assert trio.current_time() == began + STOP_SECONDS
    run.finish()
    await session.wait_stopped()


async def test_a_disconnect_undoes_nothing(
    app: ASGIApp, at: str, run: AgentRun, session: Session, nursery: trio.Nursery
) -> None:
    stop = Exchange(app, scope_of("POST", f"{at}/stop"))
    stop.hang_up()
    nursery.start_soon(stop.run)

    await session.wait_stopped()

    assert (await session.info()).stop_reason == "user_cancelled"


async def test_a_stopped_session_can_be_read_and_not_written_to(
    client: httpx.AsyncClient, at: str, session: Session
) -> None:
    await session.stop()
    await session.archive()

    read = await client.get(at)
    written = await client.post(f"{at}/inputs", json={"text": "hello"})

    assert read.status_code == 200
    assert (written.status_code, written.json()["code"]) == (409, "session_not_active")


async def test_a_fork_has_the_history(
    client: httpx.AsyncClient, at: str, run: AgentRun, sup: Supervisor
) -> None:
    run.finish("answer")
    await settle()

    answer = await client.post(f"{at}/fork", json={"at_turn": run.turn.id})
    unknown = await client.post(f"{at}/fork", json={"at_turn": "turn_none"})

    assert answer.status_code == 201
    said = await sup.session(answer.json()["id"]).transcript()
    assert [message.text for message in said] == ["first", "answer"]
    assert unknown.status_code == 409


async def test_append_adds_a_message_to_the_history(
    client: httpx.AsyncClient, at: str, session: Session
) -> None:
    answer = await client.post(f"{at}/append", json={"role": "agent", "text": "by the way"})

    assert (answer.status_code, answer.content) == (204, b"")
    assert [message.text for message in await session.transcript()] == ["by the way"]


async def test_records_are_looked_at_and_a_session_at_work_is_left_alone(
    client: httpx.AsyncClient, at: str, run: AgentRun, session: Session
) -> None:
    at_work = await client.post(f"{at}/repair", json={"dry_run": False})
    await session.stop()
    looked = await client.post(f"{at}/repair")

    assert (at_work.status_code, at_work.json()["code"]) == (409, "repair_refused")
    assert (looked.status_code, looked.json()["dry_run"], looked.json()["problems"]) == (
        200,
        True,
        [],
    )


async def test_a_command_to_an_unknown_session_is_404(client: httpx.AsyncClient) -> None:
    given = {
        "interrupt": {},
        "steer": {"text": "a"},
        "spawn": {"agent": "echo", "text": "a"},
        "stop": {},
        "resume": {},
        "fork": {},
        "clear": {},
        "append": {"role": "user", "text": "a"},
        "archive": {},
        "unarchive": {},
        "repair": {},
    }
    for verb, body in given.items():
        answer = await client.post(f"/v1/sessions/s_none/{verb}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found"), verb
