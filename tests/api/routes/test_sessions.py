"""Sessions over HTTP: made, found, changed and deleted."""

from __future__ import annotations

import httpx
import pytest
from starlette.types import ASGIApp

from supervisor import Session, Settings, Supervisor
from supervisor.core.info import Info
from supervisor.decode import decode
from tests.support.asgi_exchange import ask


async def make(client: httpx.AsyncClient, **given: object) -> httpx.Response:
    return await client.post("/v1/sessions", json={"agent": "echo", **given})


# Made ------------------------------------------------------------------------------------------


async def test_a_session_is_created_with_all_arguments(
    client: httpx.AsyncClient, sup: Supervisor
) -> None:
    answer = await make(
        client,
        key="echo:web:anna",
        name="one",
        tags=["a"],
        custom={"k": "v"},
        limits={"max_children": 2},
        permissions={"tools": ["bash"], "mode": "deny_all"},
        restart={"policy": "never"},
        queue_cap=3,
        workspace="/house/../house/x",
    )

    assert answer.status_code == 201
    info = await sup.session(answer.json()["id"]).info()
    assert decode(Info, answer.json()) == info
    assert (info.key, info.limits.max_children, info.workspace) == ("echo:web:anna", 2, "/house/x")
    assert (info.permissions.tools, info.permissions.mode) == (frozenset({"bash"}), "deny_all")


async def test_a_key_may_be_given_by_its_parts(client: httpx.AsyncClient) -> None:
    answer = await make(client, key={"agent": "a", "channel": "b:c", "peer": "d"})

    assert answer.json()["key"] == "a:b%3Ac:d"


async def test_create_with_the_same_idempotency_key_returns_the_same_session(
    client: httpx.AsyncClient, sup: Supervisor
) -> None:
    in_body = await make(client, idempotency_key="k")
    by_header = await client.post(
        "/v1/sessions", json={"agent": "echo"}, headers={"Idempotency-Key": "k"}
    )
    other = await make(client, idempotency_key="k", name="other")

    assert in_body.json()["id"] == by_header.json()["id"]
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert len((await sup.list()).items) == 1


async def test_all_faults_are_reported_at_once_with_their_paths(
    client: httpx.AsyncClient, sup: Supervisor
) -> None:
    answer = await make(
        client,
        agent=" ",
        key="a:b",
        tags=["ok", 5],
        limits={"max_depth": -1, "max_dept": 1, "tokens": "5"},
        queue_cap=0,
        on_stall="panic",
        colour="red",
    )

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert {fault["path"] for fault in answer.json()["paths"]} == {
        "$.agent",
        "$.key",
        "$.tags[1]",
        "$.limits.max_dept",
        "$.limits.tokens",
        "$.queue_cap",
        "$.on_stall",
        "$.colour",
    }
    assert (await sup.list()).items == ()


async def test_every_argument_with_a_control_character_is_named(
    client: httpx.AsyncClient, sup: Supervisor
) -> None:
    names = dict.fromkeys(("name", "title", "workspace", "idempotency_key"), "a\nb")
    given = {"agent": "echo", "key": "a:b:c\n", "tags": ["a\n"], "custom": {"a\n": ""}, **names}

    answer = await client.post("/v1/sessions", json=given)

    assert answer.status_code == 422
    assert {fault["path"] for fault in answer.json()["paths"]} == {
        f"$.{name}" for name in given if name != "agent"
    }
    assert {fault["hint"] for fault in answer.json()["paths"]} == {
        "give one line of printable text"
    }
    assert (await sup.list()).items == ()


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"agent": "nobody"}, 404, "agent_unknown"),
        ({"agent": "echo", "key": "a:b"}, 422, "invalid_key"),
        ({"agent": "echo", "workspace": "a\0b"}, 422, "config_error"),
        ({"agent": "echo", "name": "s_1"}, 422, "config_error"),
        ({}, 422, "config_error"),
        ([], 422, "config_error"),
        ("echo", 422, "config_error"),
        (None, 422, "config_error"),
    ],
)
async def test_an_invalid_session_is_refused(
    client: httpx.AsyncClient, given: object, status: int, code: str
) -> None:
    answer = await client.post("/v1/sessions", json=given)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["hint"]
    assert answer.json()["type"] == f"urn:understudy:problem:{code}"


async def test_a_key_that_is_taken_is_a_conflict(client: httpx.AsyncClient) -> None:
    await make(client, key="a:b:c")

    answer = await make(client, key="a:b:c")

    assert (answer.status_code, answer.json()["code"]) == (409, "key_taken")


async def test_a_name_that_is_taken_is_a_conflict(client: httpx.AsyncClient) -> None:
    first = (await make(client, name="auth")).json()
    other = (await make(client, name="other")).json()

    for answer in (
        await make(client, name="auth"),
        await client.patch(f"/v1/sessions/{other['id']}", json={"name": "auth"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
        assert first["id"] in answer.json()["hint"]


async def test_a_short_form_is_resolved_and_an_ambiguous_one_lists_the_candidates(
    client: httpx.AsyncClient,
) -> None:
    roots = [(await make(client, name=name)).json()["id"] for name in ("left", "right")]
    for root in roots:
        child = {"agent": "echo", "text": "hi", "name": "tests"}
        await client.post(f"/v1/sessions/{root}/spawn", json=child)

    found = await client.get("/v1/resolve", params={"text": roots[0][2:9]})
    refused = await client.get("/v1/resolve", params={"text": "tests", "kind": "session"})
    nothing = await client.get("/v1/resolve", params={"text": "nobody"})

    match = {"kind": "session", "id": roots[0], "session_id": roots[0], "name": "left"}
    assert found.json() == {"items": [match], "next": None}
    assert (refused.status_code, refused.json()["code"]) == (409, "ambiguous_id")
    assert [one["name"] for one in refused.json()["candidates"]] == ["tests", "tests"]
    assert nothing.json() == {"items": [], "next": None}


# By key ----------------------------------------------------------------------------------------


async def test_the_holder_of_a_key_is_found_or_created(client: httpx.AsyncClient) -> None:
    given = {"key": "echo:web:anna", "name": "one"}

    first = await client.post("/v1/keys/get_or_create", json=given)
    second = await client.post("/v1/keys/get_or_create", json=given)
    new = await client.post("/v1/keys/new", json=given)
    reset = await client.post("/v1/keys/reset", json={"key": "echo:web:anna"})

    assert first.json()["id"] == second.json()["id"]
    assert new.json()["id"] not in ("", first.json()["id"])
    assert reset.json()["id"] == new.json()["id"]


async def test_a_reset_without_holder_is_404(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/keys/reset", json={"key": "echo:web:nobody"})

    assert answer.status_code == 404


# Found -----------------------------------------------------------------------------------------


async def test_pages_have_no_gap_while_sessions_are_created(
    client: httpx.AsyncClient, sup: Supervisor
) -> None:
    made = [(await sup.create("echo")).id for _ in range(5)]
    first = (await client.get("/v1/sessions?limit=2")).json()
    await sup.delete(made[0])
    made.append((await sup.create("echo")).id)
    second = (await client.get("/v1/sessions", params={"limit": 4, "cursor": first["next"]})).json()

    assert [one["id"] for one in (*first["items"], *second["items"])] == made
    assert second["next"] is None


async def test_lists_are_filtered(client: httpx.AsyncClient, sup: Supervisor) -> None:
    one = await sup.create("echo", tags=["x"], name="first")
    other = await sup.create("echo", tags=["y"])
    await other.stop()
    asked = {
        "phase=stopped": {other.id},
        "tag=x": {one.id},
        "text=fir": {one.id},
        "archived=false": {one.id, other.id},
        "archived=1": set(),
        "agent=echo&badge=idle": {one.id},
        "created_after=0&updated_before=1e9": set(),
    }
    for query, wanted in asked.items():
        answer = await client.get(f"/v1/sessions?{query}")
        assert {item["id"] for item in answer.json()["items"]} == wanted, query


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("colour=red", "?colour"),
        ("limit=0", "?limit"),
        ("limit=1001", "?limit"),
        ("limit=ten", "?limit"),
        ("limit=1.0", "?limit"),
        ("limit=%D9%A3", "?limit"),
        ("limit=" + "1" * 5000, "?limit"),
        ("limit=1&limit=2", "?limit"),
        ("phase=asleep", "?phase"),
        ("archived=perhaps", "?archived"),
        ("created_after=nan", "?created_after"),
        ("created_after=1e999", "?created_after"),
        ("created_after=1_0", "?created_after"),
        ("cursor=!", "?cursor"),
        ("tag=%ED%A0%80", "?"),
        ("tag=%ff", "?"),
        ("&".join(f"a{n}=1" for n in range(100)), "?"),
    ],
)
async def test_an_invalid_query_is_refused_with_its_name(
    client: httpx.AsyncClient, query: str, path: str
) -> None:
    answer = await client.get(f"/v1/sessions?{query}")

    assert answer.status_code == 422
    assert answer.json()["paths"][0]["path"] == path


@pytest.mark.parametrize(
    ("names", "status"), [(["x" * 1000] * 200, 201), ([f"{n:01000}" for n in range(66)], 422)]
)
async def test_permissions_have_a_size(
    client: httpx.AsyncClient, names: list[str], status: int
) -> None:
    given = {"agent": "echo", "permissions": {"tools": names[:33], "skills": names}}
    answer = await client.post("/v1/sessions", json=given)

    assert answer.status_code == status
    if status == 422:
        assert answer.json()["paths"][0]["path"] == "$.permissions"
        assert "of 65536 allowed" in answer.json()["detail"]


async def test_a_child_cannot_be_given_more_names_either(
    client: httpx.AsyncClient, session: Session
) -> None:
    given = {
        "agent": "echo",
        "text": "go",
        "permissions": {"tools": [str(n) for n in range(20_000)]},
    }
    answer = await client.post(f"/v1/sessions/{session.id}/spawn", json=given)

    assert (answer.status_code, answer.json()["code"]) == (422, "config_error")


async def test_a_command_takes_no_query(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/sessions?agent=echo", json={"agent": "echo"})

    assert answer.status_code == 422


async def test_stopped_children_are_listed(client: httpx.AsyncClient, session: Session) -> None:
    one, other = [await session.spawn("echo", "go") for _ in range(2)]
    await one.stop()
    below = f"/v1/sessions/{session.id}/children"

    listed = (await client.get(below)).json()["items"]
    stopped = (await client.get(f"{below}?phase=stopped")).json()["items"]

    assert [item["id"] for item in listed] == [one.id, other.id]
    assert [item["id"] for item in stopped] == [one.id]
    assert (await client.get("/v1/sessions/s_none/children")).status_code == 404


@pytest.mark.parametrize(
    "id_",
    ["s_none", "ab", "A" * 10, "x" * 65, "..", "%2e%2e", "..%2f..%2fetc", "s_none%0a", "s%00none",
     "s_none;x", "s_none%20", "%73_none", "\uff53_none"],
)  # fmt: skip
async def test_a_malformed_id_is_404(app: ASGIApp, id_: str) -> None:
    for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/stop"), ("GET", "/stream")):
        answer = await ask(app, method, f"/v1/sessions/{id_}{rest}")
        assert answer.status == 404
        assert answer.headers["content-type"] == "application/problem+json"


# Changed and deleted ---------------------------------------------------------------------------


async def test_a_change_keeps_settings_that_are_not_given(
    client: httpx.AsyncClient, session: Session
) -> None:
    at = f"/v1/sessions/{session.id}"
    await client.patch(at, json={"title": "a title", "tags": ["x"]})

    answer = await client.patch(at, json={"limits": {"turns": 5}, "custom": {"k": "v"}})

    info = answer.json()
    assert (info["title"], info["tags"], info["custom"]) == ("a title", ["x"], {"k": "v"})
    assert (info["limits"]["turns"], info["limits"]["max_depth"]) == (5, 3)


@pytest.mark.parametrize("given", [{}, {"limits": {}}, {"title": None, "limits": None}])
async def test_a_change_of_nothing_changes_nothing(
    client: httpx.AsyncClient, session: Session, given: object
) -> None:
    before = (await session.info()).title

    answer = await client.patch(f"/v1/sessions/{session.id}", json=given)

    assert (answer.status_code, answer.json()["title"]) == (200, before)


@pytest.mark.parametrize(
    "given",
    [{"limits": {"turns": -1}}, {"limits": {"turn": 1}}, {"limits": 5}, {"title": ""}, {"id": "x"}],
)
async def test_an_invalid_change_of_an_input_is_refused(
    client: httpx.AsyncClient, session: Session, given: object
) -> None:
    assert (await client.patch(f"/v1/sessions/{session.id}", json=given)).status_code == 422


async def test_options_of_the_agent_are_given_and_changed(
    client: httpx.AsyncClient, sup: Supervisor
) -> None:
    answer = await make(client, options={"brief": True}, model="large", effort="high")

    wanted = {"brief": True, "model": "large", "effort": "high"}
    assert (answer.status_code, answer.json()["options"]) == (201, wanted)
    at = f"/v1/sessions/{answer.json()['id']}"
    changed = await client.patch(at, json={"options": {"brief": None}})
    assert changed.json()["options"] == {"model": "large", "effort": "high"}


async def test_an_option_that_is_not_offered_is_422(
    client: httpx.AsyncClient, session: Session
) -> None:
    answer = await client.patch(f"/v1/sessions/{session.id}", json={"options": {"mode": "plan"}})

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid_override")
    assert problem["hint"] == "it offers no options; leave it out"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"options": {"a": 5}}, "$.options.a"),
        ({"options": {"a": ["x"]}}, "$.options.a"),
        ({"options": {" ": "x"}}, "$.options"),
        ({"model": ""}, "$.model"),
        ({"effort": 3}, "$.effort"),
        ({"mode": "plan"}, "$.mode"),  # the mode of an agent is not the mode of permissions
    ],
)
async def test_invalid_options_are_refused_with_their_path(
    client: httpx.AsyncClient, session: Session, given: object, path: str
) -> None:
    answer = await client.patch(f"/v1/sessions/{session.id}", json=given)

    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["paths"]] == [path]


async def test_a_deleted_session_is_404(client: httpx.AsyncClient, session: Session) -> None:
    at = f"/v1/sessions/{session.id}"

    gone = await client.delete(at)

    assert (gone.status_code, gone.content) == (204, b"")
    for method in ("GET", "DELETE"):
        assert (await client.request(method, at)).json()["code"] == "session_not_found"


class TestWithOnePlace:
    """There is room for one session."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(max_sessions=1)

    async def test_a_refused_session_gets_the_limit_and_a_retry_after(
        self, client: httpx.AsyncClient, session: Session
    ) -> None:
        answer = await make(client)

        assert answer.status_code == 429
        problem = answer.json()
        assert (problem["limit"], problem["used"], problem["allowed"]) == ("max_sessions", 1, 1)
        assert answer.headers["retry-after"] == "1"
