"""The house as a whole over HTTP: health, readiness, overviews, permissions, what is kept."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from actors.testing import settle
from supervisor import Session, StoreDegraded, StoreState, Supervisor
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.api.operation import operation
from supervisor.api.params import OperationCall
from supervisor.core.info import Info
from supervisor.http_server.gate import UnixGate
from tests.support.asgi_exchange import ask
from tests.support.fake_agents import AgentRun

GATE = UnixGate(own_uid=None)


# Health ----------------------------------------------------------------------------------------


async def test_ready_is_200_only_while_work_is_accepted(sup: Supervisor) -> None:
    drain_state = DrainState()
    app = make_app(sup, gate=GATE, drain_state=drain_state)
    said = [await ask(app, "GET", "/v1/ready")]
    drain_state.open()
    said.append(await ask(app, "GET", "/v1/ready"))
    drain_state.drain()
    said.append(await ask(app, "GET", "/v1/ready"))

    assert [answer.status for answer in said] == [503, 200, 503]
    assert {said[0].json["code"], said[2].json["code"]} == {"not_ready"}
    assert said[0].headers["retry-after"] == "1"
    assert (await ask(app, "GET", "/v1/health")).status == 200


async def test_a_store_that_cannot_write_is_not_ready(
    sup: Supervisor, drain_state: DrainState
) -> None:
    state = StoreState(degraded=True, problem="the disk is full", hint="make room")
    app = make_app(sup, gate=GATE, drain_state=drain_state, store_state=lambda: state)

    answer = await ask(app, "GET", "/v1/ready")

    assert (answer.status, answer.json["code"]) == (503, "store_degraded")
    assert (answer.json["detail"], answer.json["hint"]) == ("the disk is full", "make room")
    assert answer.headers["retry-after"] == "2"


async def test_metrics_returns_the_metrics_of_the_process(
    sup: Supervisor, drain_state: DrainState
) -> None:
    app = make_app(sup, gate=GATE, drain_state=drain_state, metrics=lambda: b"understudy_up 1\n")

    for path in ("/metrics", "/v1/metrics"):
        answer = await ask(app, "GET", path)
        assert answer.body == b"understudy_up 1\n"
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_metrics_are_404_when_off(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")

    assert (answer.status_code, answer.json()["code"]) == (404, "no_such_route")


async def test_the_version_is_returned(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/version")).json()["name"] == "understudy"


async def test_a_head_is_answered_without_a_body(client: httpx.AsyncClient) -> None:
    answer = await client.head("/v1/health")

    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "TRACE", "BREW", "DELETE"])
async def test_another_method_is_405_with_allow(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.request(method, "/v1/sessions")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "POST"}
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "target",
    ["/", "/v1", "/v1/", "/v1/sessions/", "//v1/health", "/v1/health/", "/v1/Health", "/v2/health",
     "/v1/../v1/health", "/v1/./health", "/%76%31/health", "/v1/health%00", "/v1/health\n", "*"],
)  # fmt: skip
async def test_an_unknown_path_is_404(app: ASGIApp, target: str) -> None:
    answer = await ask(app, "GET", target)

    assert (answer.status, answer.json["code"]) == (404, "no_such_route")


# Overviews -------------------------------------------------------------------------------------


async def test_the_tree_has_children_below_their_parents(
    client: httpx.AsyncClient, session: Session
) -> None:
    child = await session.spawn("echo", "go")

    (top,) = (await client.get("/v1/tree")).json()["items"]
    (part,) = (await client.get(f"/v1/tree?root={child.id}")).json()["items"]

    assert (top["id"], top["children"][0]["id"]) == (session.id, child.id)
    assert part["id"] == child.id
    assert (await client.get("/v1/tree?root=s_none")).status_code == 404


async def test_stats_count_sessions(client: httpx.AsyncClient, session: Session) -> None:
    stats = (await client.get("/v1/stats")).json()

    assert (stats["sessions"], stats["phases"]["idle"]) == (1, 1)
    assert stats["store"]["degraded"] is False


async def test_search_returns_pages(client: httpx.AsyncClient, session: Session) -> None:
    for number in range(3):
        await session.append("user", f"a needle {number}")
    first = (await client.get("/v1/search?q=needle&limit=2")).json()
    rest = (await client.get(f"/v1/search?q=needle&cursor={first['next']}")).json()

    snippets = [hit["snippet"] for hit in (*first["items"], *rest["items"])]
    assert snippets == ["a [needle] 2", "a [needle] 1", "a [needle] 0"]
    assert (await client.get("/v1/search?q=%20")).json()["paths"][0]["path"] == "?q"
    assert (await client.get("/v1/search")).json()["paths"][0]["detail"] == "required field missing"


# Permissions -----------------------------------------------------------------------------------


async def test_a_permission_request_is_listed_and_answered_once(
    client: httpx.AsyncClient, run: AgentRun, session: Session
) -> None:
    action = run.begin(run.turn.ask("run it?", tool="bash"))
    await settle()
    (request,) = (await client.get("/v1/permissions")).json()["items"]
    at = f"/v1/permissions/{request['id']}"

    wrong = await client.post(at, json={"decision": "perhaps"})
    first = await client.post(at, json={"decision": "allow_always"})
    second = await client.post(at, json={"decision": "reject_once"})

    assert (request["session_id"], request["tool"]) == (session.id, "bash")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_decision")
    assert (first.status_code, second.status_code) == (204, 409)
    assert second.json()["code"] == "permission_conflict"
    assert await action.wait()


async def test_an_unknown_permission_request_is_404(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/permissions/req_none", json={"decision": "allow_once"})

    assert (answer.status_code, answer.json()["code"]) == (404, "permission_not_found")


async def test_an_allow_always_is_a_rule_that_can_be_removed(
    client: httpx.AsyncClient, run: AgentRun, session: Session, sup: Supervisor
) -> None:
    run.begin(run.turn.ask("run it?", tool="bash"))
    await settle()
    await sup.answer((await sup.permissions())[0].id, "reject_always")
    await settle()
    at = f"/v1/sessions/{session.id}/rules"
    (rule,) = (await client.get(at)).json()["items"]

    removed = await client.delete(f"{at}/{rule['id']}")
    again = await client.delete(f"{at}/{rule['id']}")

    assert (rule["tool"], rule["decision"]) == ("bash", "reject_always")
    assert (removed.status_code, again.status_code) == (204, 404)


# What is kept ----------------------------------------------------------------------------------


async def test_a_session_is_imported_from_a_file(
    client: httpx.AsyncClient, session: Session, tmp_path: Path
) -> None:
    await session.append("user", "hello")
    file = tmp_path / "session.jsonl"
    file.write_text(await session.export("jsonl"))

    answer = await client.post("/v1/import", json={"path": str(file)})

    assert (answer.status_code, answer.json()["phase"]) == (201, "stopped")
    assert answer.json()["id"] != session.id


async def test_a_failed_import_names_the_line(client: httpx.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nonsense\n")

    answer = await client.post("/v1/import", json={"path": str(tmp_path / "x")})

    assert (answer.status_code, answer.json()["code"]) == (422, "import_failed")
    assert answer.json()["line"] == 1


@pytest.mark.parametrize("path", ["x.jsonl", "../x", "", "/a\0b", 5, None])
async def test_an_import_path_must_be_absolute(client: httpx.AsyncClient, path: object) -> None:
    answer = await client.post("/v1/import", json={"path": path})

    assert answer.status_code == 422
    assert answer.json()["paths"][0]["path"] == "$.path"


async def test_cleanup_deletes_old_trees(
    client: httpx.AsyncClient, sup: Supervisor, session: Session
) -> None:
    await session.append("user", "hello")
    await session.stop()

    looked = await client.post("/v1/cleanup", json={"keep_last": 0, "dry_run": True})
    done = await client.post("/v1/cleanup", json={"keep_last": 0})

    assert looked.json()["deleted"] == done.json()["deleted"] == {session.id: "count"}
    assert not await sup.exists(session.id)


# Leaving ---------------------------------------------------------------------------------------


async def test_draining_refuses_new_work_and_allows_reads(
    client: httpx.AsyncClient, session: Session
) -> None:
    at = f"/v1/sessions/{session.id}"
    drained = await client.post("/v1/drain")

    made = await client.post("/v1/sessions", json={"agent": "echo"})
    sent = await client.post(f"{at}/inputs", json={"text": "hello"})
    read = await client.get(at)

    assert drained.status_code == 204
    assert (made.status_code, sent.status_code, read.status_code) == (503, 503, 200)
    assert sent.json()["code"] == "session_not_active"
    assert sent.headers["retry-after"] == "5"


async def test_a_degraded_store_refuses_work_and_allows_reads(
    client: httpx.AsyncClient, session: Session, sup: Supervisor
) -> None:
    sup._services.health.degrade(StoreDegraded("the disk is full", hint="make room"))
    at = f"/v1/sessions/{session.id}"

    sent = await client.post(f"{at}/inputs", json={"text": "hello"})
    ready = await client.get("/v1/ready")
    read = await client.get(at)
    sup._services.health.recover()

    assert (sent.status_code, sent.json()["code"]) == (503, "store_degraded")
    assert (sent.headers["retry-after"], sent.json()["hint"]) == ("2", "make room")
    assert (ready.status_code, read.status_code) == (503, 200)


# Defects ---------------------------------------------------------------------------------------


@operation("GET", "/v1/broken")
async def broken(call: OperationCall) -> Info:
    """Has a defect."""
    raise RuntimeError("a secret inside")


async def test_a_bug_is_logged_and_answered_with_a_bare_500(
    sup: Supervisor,
    drain_state: DrainState,
    caplog: Any,  # noqa: ANN401 - pytest's
) -> None:
    app = make_app(sup, gate=GATE, drain_state=drain_state, extra_operations=[broken])

    with caplog.at_level(logging.ERROR):
        answer = await ask(app, "GET", "/v1/broken")

    assert (answer.status, answer.json["code"]) == (500, "internal_error")
    assert b"secret" not in answer.body
    assert "a secret inside" in caplog.text
