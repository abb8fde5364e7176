"""The stream of rows: its events, its refusals, and what a reader gets that comes back."""

from __future__ import annotations

import pytest
import trio
from starlette.types import ASGIApp

from actors.testing import settle
from supervisor import Session, Supervisor
from supervisor.api.sse import WRITE_SECONDS
from tests.support.asgi_exchange import LOCALHOST, Watch, ask
from tests.support.fake_agents import AgentRun, FakeAgent, records

QUIET_SECONDS = 3.0


async def quiet() -> None:
    """Wait until no row is coalesced any more."""
    await trio.sleep(QUIET_SECONDS)
    await settle()


async def test_a_stream_begins_with_a_snapshot_and_shows_each_change(
    session: Session, fake_agent: FakeAgent, watch: Watch
) -> None:
    stream = await watch("/v1/watch")
    await session.send("work")
    run = await fake_agent.next_run()
    await run.do(run.turn.say("working"))
    await quiet()
    run.finish()
    await session.stop()
    await quiet()

    first, *others = stream.events
    assert (first.name, first.id) == ("snapshot", str(first.data["position"]))
    assert [row["id"] for row in first.data["rows"]] == [session.id]
    assert first.data["store"]["degraded"] is False
    assert {event.name for event in others} == {"row"}
    assert {event.id for event in others} == {None}
    assert "working" in [event.data["last_text"] for event in others]
    assert others[-1].data["phase"] == "stopped"


async def test_a_named_session_has_its_records_and_deltas_once_over_a_reconnect(
    session: Session, run: AgentRun, watch: Watch
) -> None:
    target = f"/v1/watch?sessions={session.id}"
    first = await watch(target)
    await run.do(run.turn.say("one "))
    await quiet()
    first.hang_up()
    await run.do(run.turn.say("two"))
    run.finish()
    await quiet()
    headers = (LOCALHOST, (b"Last-Event-ID", str(first.ids[-1]).encode()))
    second = await watch(target, headers=headers)
    await quiet()

    both = [event for event in (*first.events, *second.events) if event.name != "snapshot"]
    seqs = [event.data["seq"] for event in both if event.id is not None]
    assert seqs == [record.seq for record in await records(session)]
    assert [event.name for event in first.events].count("delta") == 1
    assert [event.name for event in second.events].count("snapshot") == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("sessions=nope!", 404),
        ("sessions=s_0_1", 404),
        ("sessions=%00%1b[2J", 404),
        ("sessions=" + "a" * 5_000, 404),
        ("sessions=" + ",".join(f"s_0_{number}" for number in range(17)), 422),
        ("after=-1", 422),
        ("after=x", 422),
        ("other=1", 422),
    ],
)
async def test_a_hostile_query_is_refused(app: ASGIApp, query: str, status: int) -> None:
    answer = await ask(app, "GET", f"/v1/watch?{query}")

    assert answer.status == status
    assert "Traceback" not in answer.body.decode()


async def test_a_reader_that_takes_nothing_is_dropped(
    sup: Supervisor, session: Session, watch: Watch
) -> None:
    stream = await watch("/v1/watch")
    stream.stall()
    await session.set(title="changed")
    await trio.sleep(WRITE_SECONDS + 5.0)

    assert stream.is_over.is_set()
    assert (await session.info()).title == "changed"
