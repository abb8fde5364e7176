"""Inputs over HTTP: sent once, awaited, changed, cancelled."""

from __future__ import annotations

import httpx
import pytest
import trio

from actors.testing import settle
from supervisor import Receipt, Restart, Session, Settings, Supervisor
from supervisor.api.drain import DrainState
from supervisor.decode import decode
from tests.support.asgi_exchange import Watch
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, waiting_texts


@pytest.fixture
def at(session: Session) -> str:
    return f"/v1/sessions/{session.id}/inputs"


async def send(client: httpx.AsyncClient, at: str, text: str = "hello", **given: object) -> str:
    answer = await client.post(at, json={"text": text, **given})
    assert answer.status_code == 202, answer.text
    return decode(Receipt, answer.json()).input_id


# Sent ------------------------------------------------------------------------------------------


async def test_a_receipt_says_where_the_input_is(
    client: httpx.AsyncClient, at: str, fake_agent: FakeAgent
) -> None:
    first = (await client.post(at, json={"text": "a"})).json()
    second = (await client.post(at, json={"text": "b"})).json()

    assert (first["status"], second["status"], second["position"]) == ("started", "queued", 0)
    assert first["turn_id"] is not None


async def test_the_same_key_gives_the_same_receipt_and_one_input(
    client: httpx.AsyncClient, at: str, session: Session, fake_agent: FakeAgent
) -> None:
    by_header = {"headers": {"Idempotency-Key": "k"}}
    answers = [
        await client.post(at, json={"text": "a"}, **by_header),  # type: ignore[arg-type]
        await client.post(at, json={"text": "a", "idempotency_key": "k"}),
        await client.post(at, json={"text": "a", "idempotency_key": "k"}, **by_header),  # type: ignore[arg-type]
        await client.post(at, json={"text": "a", "idempotency_key": None}, **by_header),  # type: ignore[arg-type]
    ]

    assert len({answer.content for answer in answers}) == 1
    assert len(await outcomes(session)) == 1


async def test_different_idempotency_keys_in_header_and_body_are_a_conflict(
    client: httpx.AsyncClient, at: str, session: Session
) -> None:
    answer = await client.post(
        at, json={"text": "a", "idempotency_key": "k"}, headers={"Idempotency-Key": "l"}
    )

    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
    assert await outcomes(session) == {}


async def test_the_same_key_with_another_text_is_a_conflict(
    client: httpx.AsyncClient, at: str
) -> None:
    await send(client, at, "a", idempotency_key="k")

    answer = await client.post(at, json={"text": "b"}, headers={"Idempotency-Key": "k"})

    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")


async def test_an_idempotency_key_is_refused_where_unsupported(
    client: httpx.AsyncClient, at: str
) -> None:
    answer = await client.post(f"{at[:-7]}/stop", headers={"Idempotency-Key": "k"})

    assert answer.status_code == 422
    assert answer.json()["paths"][0]["path"] == "Idempotency-Key"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"text": ""}, "input_refused"),
        ({"text": " \n"}, "input_refused"),
        ({"text": "a", "ttl_seconds": 0}, "input_refused"),
        ({"text": "a", "ttl_seconds": -1}, "input_refused"),
        ({"text": "a", "attachments": [[]]}, "config_error"),
        ({"text": 5}, "config_error"),
        ({"text": "a", "when_busy": "shout"}, "config_error"),
        ({"text": "a", "source": "parent"}, "config_error"),
        ({}, "config_error"),
    ],
)
async def test_an_invalid_input_is_refused(
    client: httpx.AsyncClient, at: str, session: Session, given: object, code: str
) -> None:
    answer = await client.post(at, json=given)

    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert await outcomes(session) == {}


async def test_a_text_that_is_too_long_is_413(client: httpx.AsyncClient, at: str) -> None:
    answer = await client.post(at, json={"text": "x" * 70_000})

    assert (answer.status_code, answer.json()["code"]) == (413, "input_too_large")


async def test_when_busy_reject_is_a_conflict(
    client: httpx.AsyncClient, at: str, run: AgentRun
) -> None:
    answer = await client.post(at, json={"text": "a", "when_busy": "reject"})

    assert (answer.status_code, answer.json()["code"]) == (409, "input_refused")


async def test_an_input_to_an_unknown_session_is_404(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/sessions/s_none/inputs", json={"text": "a"})

    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


class TestWithRoomForOne:
    """One input may wait."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(queue_cap=1)

    async def test_a_full_queue_says_when_to_try_again(
        self, client: httpx.AsyncClient, at: str, run: AgentRun
    ) -> None:
        await send(client, at)

        answer = await client.post(at, json={"text": "one too many"})

        assert (answer.status_code, answer.json()["code"]) == (429, "queue_full")
        assert answer.headers["retry-after"] == "1"


# Looked after ----------------------------------------------------------------------------------


async def test_the_state_of_an_input_can_be_read_at_any_time(
    client: httpx.AsyncClient, at: str, run: AgentRun, fake_agent: FakeAgent
) -> None:
    input_id = await send(client, at)
    queued = (await client.get(f"{at}/{input_id}")).json()
    run.finish()
    second = await fake_agent.next_run()
    running = (await client.get(f"{at}/{input_id}")).json()
    second.finish("done")
    await settle()
    over = (await client.get(f"{at}/{input_id}")).json()

    assert (queued["status"], queued["position"], queued["result"]) == ("queued", 0, None)
    assert (running["status"], running["turn_id"]) == ("delivered", second.turn.id)
    assert running["result"] is None
    assert (over["status"], over["result"]["text"]) == ("delivered", "done")


async def test_a_wait_ends_with_the_turn(
    client: httpx.AsyncClient, at: str, run: AgentRun, nursery: trio.Nursery, fake_agent: FakeAgent
) -> None:
    input_id = await send(client, at)

    async def finish_later() -> None:
        await trio.sleep(20)
        run.finish()
        (await fake_agent.next_run()).finish("done")

    nursery.start_soon(finish_later)
    began = trio.current_time()
    answer = await client.get(f"{at}/{input_id}?wait=30")

    assert answer.json()["result"]["text"] == "done"
    assert trio.current_time() == began + 20


async def test_a_wait_that_is_too_short_returns_the_current_state(
    client: httpx.AsyncClient, at: str, run: AgentRun
) -> None:
    input_id = await send(client, at)
    began = trio.current_time()

    answer = await client.get(f"{at}/{input_id}?wait=30")

    assert (answer.status_code, answer.json()["status"]) == (200, "queued")
    assert trio.current_time() == began + 30


@pytest.mark.parametrize("wait", ["61", "-1", "nan", "inf", "long"])
async def test_a_wait_of_more_than_a_minute_is_refused(
    client: httpx.AsyncClient, at: str, wait: str
) -> None:
    answer = await client.get(f"{at}/in_any?wait={wait}")

    assert answer.json()["paths"][0]["path"] == "?wait"


async def test_a_cancelled_input_has_the_error_of_its_result(
    client: httpx.AsyncClient, at: str, run: AgentRun
) -> None:
    input_id = await send(client, at)
    await client.delete(f"{at}/{input_id}")

    state = (await client.get(f"{at}/{input_id}?wait=30")).json()

    assert (state["status"], state["code"], state["result"]) == ("cancelled", "input_refused", None)
    assert state["hint"]


async def test_an_input_that_a_stopped_session_holds_is_not_waited_for(
    client: httpx.AsyncClient, sup: Supervisor
) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))
    await session.send("sleep 1\ncrash")
    at = f"/v1/sessions/{session.id}/inputs"
    input_id = await send(client, at, "say second")

    while_it_stops = (await client.get(f"{at}/{input_id}?wait=60")).json()
    afterwards = (await client.get(f"{at}/{input_id}?wait=60")).json()

    assert while_it_stops == afterwards
    assert (afterwards["status"], afterwards["code"]) == ("queued", "session_not_active")
    assert trio.current_time() < 5


async def test_the_reply_to_steering_names_its_turn(
    client: httpx.AsyncClient, at: str, run: AgentRun
) -> None:
    receipt = (await client.post(f"{at[:-7]}/steer", json={"text": "shorter"})).json()
    staged = (await client.get(f"{at}/{receipt['input_id']}")).json()
    assert list(run.turn.steering()) == ["shorter"]
    await settle()
    steered = (await client.get(f"{at}/{receipt['input_id']}")).json()

    assert (receipt["status"], staged["status"]) == ("staged", "staged")
    assert (steered["status"], steered["turn_id"]) == ("steered", run.turn.id)


async def test_a_disconnect_ends_only_the_wait(
    run: AgentRun, session: Session, at: str, drain_state: DrainState, watch: Watch
) -> None:
    receipt = await session.send("later")
    waiting = await watch(f"{at}/{receipt.input_id}?wait=60")
    assert drain_state.open_streams == 1

    waiting.hang_up()
    await settle()

    assert waiting.is_over.is_set()
    assert drain_state.open_streams == 0
    assert await waiting_texts(session) == ["later"]


async def test_a_wait_is_answered_when_the_server_closes(
    run: AgentRun, session: Session, at: str, drain_state: DrainState, watch: Watch
) -> None:
    receipt = await session.send("later")
    waiting = await watch(f"{at}/{receipt.input_id}?wait=60")

    drain_state.close()
    await settle()

    assert (waiting.status, waiting.json["code"]) == (503, "draining")


async def test_an_unknown_input_is_404(client: httpx.AsyncClient, at: str) -> None:
    for method, given in (("GET", None), ("DELETE", None), ("PATCH", {"position": 0})):
        answer = await client.request(method, f"{at}/in_none", json=given)
        assert (answer.status_code, answer.json()["code"]) == (404, "input_refused")
    answer = await client.post(f"{at}/in_none/promote")
    assert (answer.status_code, answer.json()["code"]) == (404, "input_refused")


# Changed and taken back ------------------------------------------------------------------------


async def test_a_queued_input_is_listed_edited_moved_promoted_and_cancelled(
    client: httpx.AsyncClient, at: str, run: AgentRun, session: Session
) -> None:
    one, two, three = [await send(client, at, text) for text in ("one", "two", "three")]

    edited = await client.patch(f"{at}/{one}", json={"text": "uno"})
    moved = await client.patch(f"{at}/{three}", json={"position": 0})
    listed = (await client.get(at)).json()
    cancelled = await client.delete(f"{at}/{two}")
    promoted = await client.post(f"{at}/{three}/promote")

    assert (edited.json()["position"], moved.json()["position"]) == (0, 0)
    assert [item["text"] for item in listed["items"]] == ["three", "uno", "two"]
    assert cancelled.status_code == 204
    assert (promoted.status_code, promoted.json()["status"]) == (202, "staged")
    assert run.turn.steering() == ["three"]


@pytest.mark.parametrize("given", [{}, {"text": "a", "position": 0}, {"text": None}])
async def test_two_changes_of_an_input_at_once_are_refused(
    client: httpx.AsyncClient, at: str, given: object
) -> None:
    assert (await client.patch(f"{at}/in_any", json=given)).status_code == 422


@pytest.mark.parametrize("given", [{"position": -1}, {"position": "0"}, {"text": ""}])
async def test_an_invalid_change_of_an_input_is_refused(
    client: httpx.AsyncClient, at: str, given: object
) -> None:
    assert (await client.patch(f"{at}/in_any", json=given)).status_code == 422


async def test_a_settled_input_cannot_be_cancelled(
    client: httpx.AsyncClient, at: str, run: AgentRun, sup: Supervisor, session: Session
) -> None:
    (input_id,) = await outcomes(session)

    answer = await client.delete(f"{at}/{input_id}")

    assert (answer.status_code, answer.json()["code"]) == (409, "input_refused")
