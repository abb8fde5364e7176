"""What has happened, read over HTTP: records in pages, transcripts, exports, causes."""

from __future__ import annotations

import httpx
import pytest

from actors.testing import settle
from supervisor import Record, Session
from supervisor.decode import decode
from tests.support.fake_agents import AgentRun, FakeAgent, records


@pytest.fixture
def at(session: Session) -> str:
    return f"/v1/sessions/{session.id}"


@pytest.fixture
async def told(session: Session, run: AgentRun) -> list[Record]:
    """The records of a session in which something was said."""
    await run.do(run.turn.say("<b>hello</b>"))
    run.finish()
    await settle()
    return await records(session)


async def test_pages_of_records_have_no_gap(
    client: httpx.AsyncClient, at: str, told: list[Record]
) -> None:
    found: list[Record] = []
    after: str | None = "0"
    while after is not None:
        page = (await client.get(f"{at}/events", params={"after": after, "limit": 3})).json()
        assert len(page["items"]) <= 3
        found += [decode(Record, one) for one in page["items"]]
        after = page["next"]

    assert found == told


async def test_a_page_after_the_last_record_is_empty(
    client: httpx.AsyncClient, at: str, told: list[Record], session: Session
) -> None:
    last = told[-1].seq

    assert (await client.get(f"{at}/events?after={last}")).json() == {"items": [], "next": None}
    await session.set(title="more")
    page = (await client.get(f"{at}/events?after={last}")).json()
    assert [one["seq"] for one in page["items"]] == [last + 1]


async def test_a_running_session_has_records_too(
    client: httpx.AsyncClient, at: str, run: AgentRun
) -> None:
    await run.do(run.turn.say("not yet a record"))

    page = (await client.get(f"{at}/events")).json()

    assert [one["kind"] for one in page["items"]][-1] == "user_text"


async def test_a_transcript_has_the_messages(
    client: httpx.AsyncClient, at: str, told: list[Record]
) -> None:
    answer = await client.get(f"{at}/transcript")

    said = [(one["role"], one["text"]) for one in answer.json()["items"]]
    assert said == [("user", "first"), ("agent", "<b>hello</b>")]


@pytest.mark.parametrize(
    ("form", "media_type"),
    [("markdown", "text/markdown"), ("html", "text/html"), ("jsonl", "application/jsonl")],
)
async def test_a_session_is_exported_as_text(
    client: httpx.AsyncClient, at: str, told: list[Record], form: str, media_type: str
) -> None:
    answer = await client.get(f"{at}/transcript?format={form}")

    assert answer.headers["content-type"].startswith(media_type)
    assert "hello" in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_an_html_export_has_a_restrictive_policy(
    client: httpx.AsyncClient, at: str, told: object
) -> None:
    answer = await client.get(f"{at}/transcript?format=html")

    assert "<b>hello" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "sandbox" in policy


async def test_secrets_are_redacted_on_request(
    client: httpx.AsyncClient, at: str, session: Session
) -> None:
    await session.append("user", "key ghp_0123456789abcdefghijABCDEFGHIJ")

    plain = await client.get(f"{at}/transcript?format=jsonl")
    covered = await client.get(f"{at}/transcript?format=jsonl&redact=1")
    messages = await client.get(f"{at}/transcript?redact=1")

    assert "ghp_0123" in plain.text
    assert "ghp_0123" not in covered.text
    assert messages.status_code == 422


async def test_history_is_the_records_by_turn(
    client: httpx.AsyncClient, at: str, told: list[Record]
) -> None:
    groups = (await client.get(f"{at}/history")).json()["items"]

    assert [one["seq"] for group in groups for one in group["records"]] == [
        record.seq for record in told
    ]


async def test_why_explains_the_wait_of_a_session(
    client: httpx.AsyncClient, at: str, session: Session, fake_agent: FakeAgent
) -> None:
    await session.send("first")
    run = await fake_agent.next_run()
    await run.open_call("bash")
    await settle()

    why = (await client.get(f"{at}/why")).json()

    assert [one["waits_for"] for one in why["chain"]] == ["tool"]


async def test_replay_returns_an_earlier_state(
    client: httpx.AsyncClient, at: str, told: list[Record]
) -> None:
    then = await client.get(f"{at}/replay?at=1")
    never = await client.get(f"{at}/replay?at=1000")

    assert then.json()["phase"] == "starting"
    assert (never.status_code, never.json()["code"]) == (404, "record_not_found")
    assert (await client.get(f"{at}/replay")).json()["paths"][0]["path"] == "?at"


async def test_reading_an_unknown_session_is_404(client: httpx.AsyncClient) -> None:
    for what in ("events", "transcript", "transcript?format=html", "history", "why", "replay?at=1"):
        answer = await client.get(f"/v1/sessions/s_none/{what}")
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found"), what
