"""What has happened, read over HTTP: records in pages, transcripts, exports, causes."""

from __future__ import annotations

import httpx
import pytest

from actors.testing import settle
from supervisor import Record, Session
from supervisor.api.wire import decode
from tests.sessions.cast import Player, Scene, records


@pytest.fixture
def at(session: Session) -> str:
    return f"/v1/sessions/{session.id}"


@pytest.fixture
async def told(session: Session, scene: Scene) -> list[Record]:
    """The records of a session in which something was said."""
    await scene.do(scene.turn.say("<b>hello</b>"))
    scene.finish()
    await settle()
    return await records(session)


async def test_records_come_in_pages_that_hang_together(
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


async def test_after_the_last_record_there_is_nothing_yet(
    client: httpx.AsyncClient, at: str, told: list[Record], session: Session
) -> None:
    last = told[-1].seq

    assert (await client.get(f"{at}/events?after={last}")).json() == {"items": [], "next": None}
    await session.set(title="more")
    page = (await client.get(f"{at}/events?after={last}")).json()
    assert [one["seq"] for one in page["items"]] == [last + 1]


async def test_a_running_session_has_records_too(
    client: httpx.AsyncClient, at: str, scene: Scene
) -> None:
    await scene.do(scene.turn.say("not yet a record"))

    page = (await client.get(f"{at}/events")).json()

    assert [one["kind"] for one in page["items"]][-1] == "user_text"


async def test_a_transcript_is_what_was_said(
    client: httpx.AsyncClient, at: str, told: list[Record]
) -> None:
    answer = await client.get(f"{at}/transcript")

    said = [(one["role"], one["text"]) for one in answer.json()["items"]]
    assert said == [("user", "first"), ("agent", "<b>hello</b>")]


@pytest.mark.parametrize(
    ("form", "media_type"),
    [("markdown", "text/markdown"), ("html", "text/html"), ("jsonl", "application/jsonl")],
)
async def test_a_session_leaves_the_house_as_text(
    client: httpx.AsyncClient, at: str, told: list[Record], form: str, media_type: str
) -> None:
    answer = await client.get(f"{at}/transcript?format={form}")

    assert answer.headers["content-type"].startswith(media_type)
    assert "hello" in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_page_can_do_nothing(client: httpx.AsyncClient, at: str, told: object) -> None:
    answer = await client.get(f"{at}/transcript?format=html")

    assert "<b>hello" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "sandbox" in policy


async def test_secrets_are_covered_when_asked(
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


async def test_why_nothing_happens_is_said(
    client: httpx.AsyncClient, at: str, session: Session, player: Player
) -> None:
    await session.send("first")
    scene = await player.next_scene()
    await scene.open_call("bash")
    await settle()

    why = (await client.get(f"{at}/why")).json()

    assert [one["waits_for"] for one in why["chain"]] == ["tool"]


async def test_a_session_is_shown_as_it_was(
    client: httpx.AsyncClient, at: str, told: list[Record]
) -> None:
    then = await client.get(f"{at}/replay?at=1")
    never = await client.get(f"{at}/replay?at=1000")

    assert then.json()["phase"] == "starting"
    assert (never.status_code, never.json()["code"]) == (404, "record_not_found")
    assert (await client.get(f"{at}/replay")).json()["paths"][0]["path"] == "?at"


async def test_of_nobody_there_is_nothing_to_read(client: httpx.AsyncClient) -> None:
    for what in ("events", "transcript", "transcript?format=html", "history", "why", "replay?at=1"):
        answer = await client.get(f"/v1/sessions/s_none/{what}")
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found"), what
