"""Filters, alone or two at once: every store returns exactly the matching sessions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

from supervisor.core.ids import SessionId, SessionKey
from supervisor.core.info import Badge, badge_of
from supervisor.core.limits import Lineage
from supervisor.core.state import Failure, Phase, SessionState
from supervisor.store.filters import matches
from supervisor.store.list_filter import BADGE_PHASES, Filter
from supervisor.store.port import Store, Write
from supervisor.store.sqlite.store import open_sqlite
from tests.support.event_histories import Chance

# Sessions --------------------------------------------------------------------------------


def session(called: str, /, **changes: Any) -> SessionState:  # noqa: ANN401 - fields of the state
    return attrs.evolve(SessionState(id=SessionId(f"s_{called}"), agent_name="echo"), **changes)


def key(*parts: str) -> SessionKey:
    return SessionKey(*parts)


SESSIONS = [
    session("plain"),
    session("other", agent_name="other", created_at=5.0, updated_at=9.0),
    session("named", name="Release NOTES", tags=("x", "y"), created_at=2.0, updated_at=2.0),
    session("titled", title='notes: a 100% "plan"', tags=("xy",), workspace="/srv/a"),
    session(
        "escaped", title="a\\b\tc\nd\0e", tags=("a\0b", 'q"q', "back\\slash"), workspace="/srv"
    ),
    session("street", title="Straße", name="İstanbul \u017f ﬁle ΣΊΣΥΦΟΣ", tags=("é", "e\u0301")),
    session("keyed", key=key("echo", "irc", "ann"), created_at=3.5, updated_at=1e9),
    session("odd_key", key=key("a:b", "c%d", "é e", "thread"), archived=True, phase=Phase.STOPPED),
    session("ascii_key", key=key("x:y", "100%", "bob")),
    session("words", title="agent channel peer null true phase s_words", tags=("phase", "idle")),
    session(
        "child", lineage=Lineage(parent=SessionId("s_plain"), root=SessionId("s_plain"), depth=1)
    ),
    session("idle", phase=Phase.IDLE, tags=("x",)),
    session("asleep", phase=Phase.SUSPENDED, agent_name="Echo"),
    session("over", phase=Phase.STOPPED, stop_reason="user_cancelled"),
    session(
        "failed", phase=Phase.STOPPED, stop_reason="error", last_failure=Failure("unknown", "x")
    ),
    session("empty", name="", title=""),
]
WANTED: dict[str, list[Any]] = {
    "agent": ["echo", "Echo", "other", "", "nobody", "echo\0"],
    "channel": ["irc", "c%d", "c%25d", ""],
    "peer": ["ann", "é e", "Ann"],
    "phase": list(Phase),
    "badge": list(get_args(Badge)),
    "parent": ["s_plain", "s_child", ""],
    "root": ["s_plain", "s_child", "s_idle", ""],
    "tag": ["x", "y", "xy", "a\0b", 'q"q', "back\\slash", "é", "e\u0301", "", "X", "phase", "idle"],
    "workspace": ["/srv", "/srv/a", "/srv/", ""],
    "archived": [True, False],
    "created_after": [0.0, 2.0, 3.5, 5, 1e300],
    "created_before": [0.0, 2.0, 3.5, 5.0001],
    "updated_after": [2, 8.999, 1e9],
    "updated_before": [1, 2.0, 1e9],
}
TEXTS = [
    "notes", "NOTES", "release n", "", " ", "ss", "straSSE", "straße", "i", "s", "fi", "σίσυφος",
    '"plan"', "100%", "b\t", "\\", "\n", "\0e", "irc", "echo:irc", "a%3Ab", "%25", "25", "3a",
    "3Ab", ":thread", "é", "É E", "phase", "null", "agent", "s_plain", "user", "x", "{", ",",
]  # fmt: skip
WANTED["text"] = TEXTS

SINGLES = [Filter(**{name: value}) for name, values in WANTED.items() for value in values]


def pairs() -> Iterable[Filter]:
    for one, other in itertools.combinations(WANTED, 2):
        for value, second in itertools.product(WANTED[one][:6], WANTED[other][:6]):
            yield Filter(**{one: value, other: second})


async def listed(store: Store, wanted: Filter) -> list[str]:
    return [stored.row.id async for stored in store.rows(matching=wanted)]


async def differing(
    store: Store, sessions: Iterable[SessionState], filters: Iterable[Filter]
) -> list[Any]:
    """Return the filters for which the store returns a wrong result."""
    sessions = list(sessions)
    await store.commit([Write(one.id, 0, (), one) for one in sessions])
    found = []
    for wanted in filters:
        got, right = (
            await listed(store, wanted),
            [one.id for one in sessions if matches(one, wanted)],
        )
        if got != right:
            given = attrs.asdict(wanted, filter=lambda _, value: value is not None)
            found.append((given, "got", got, "not", right))
    return found


async def test_each_filter_returns_the_matching_sessions(store: Store) -> None:
    assert await differing(store, SESSIONS, SINGLES) == []


async def test_any_two_filters_return_the_sessions_that_match_both(store: Store) -> None:
    assert await differing(store, SESSIONS, pairs()) == []


async def test_filters_match_sessions_in_any_reachable_state(store: Store) -> None:
    chance = Chance(5)
    lives = [attrs.evolve(chance.session(), id=SessionId(f"s_{at:03}")) for at in range(80)]

    filters = [one for one in SINGLES if one.text is None]
    assert await differing(store, lives, filters) == []


async def test_a_changed_session_is_listed_by_its_current_state(store: Store) -> None:
    one = session("one", phase=Phase.IDLE, title="before", updated_at=1.0)
    await store.commit([Write(one.id, 0, (), one)])

    now = attrs.evolve(one, phase=Phase.STOPPED, title="after", archived=True, updated_at=7.0)
    await store.commit([Write(one.id, 0, (), attrs.evolve(now, tags=("new",)))])

    assert await listed(store, Filter(phase=Phase.IDLE)) == []
    assert await listed(store, Filter(text="before")) == []
    matching = Filter(
        phase=Phase.STOPPED, text="AFTER", archived=True, tag="new", updated_after=6.0
    )
    assert await listed(store, matching) == [one.id]


# Matching --------------------------------------------------------------------------------


def test_a_name_of_two_lines_is_found_by_a_text_over_both() -> None:
    lines = session("lines", name="first\nsecond", title="third")

    assert matches(lines, Filter(text="first\nsecond"))
    assert not matches(lines, Filter(text="second\nthird"))


def test_an_empty_filter_matches_every_session() -> None:
    assert all(matches(one, Filter()) for one in SESSIONS)


def test_times_are_open_at_both_ends() -> None:
    one = session("one", created_at=2.0)

    assert not matches(one, Filter(created_after=2.0))
    assert not matches(one, Filter(created_before=2.0))
    assert matches(one, Filter(created_after=1.9, created_before=2.1))


def test_a_root_is_the_root_of_itself() -> None:
    assert matches(session("one"), Filter(root="s_one"))
    assert not matches(session("one"), Filter(parent="s_one"))


@pytest.mark.parametrize(("text", "fit"), [("echo:irc", True), ("IRC:A", True), ("ann:", False)])
def test_a_text_filter_matches_part_of_the_key(text: str, *, fit: bool) -> None:
    assert matches(session("one", key=key("echo", "irc", "ann")), Filter(text=text)) == fit


def test_the_badge_index_contains_every_session() -> None:
    chance = Chance(11)
    for _ in range(500):
        one = chance.session()
        badge = badge_of(one)
        assert one.phase in BADGE_PHASES.get(badge, tuple(Phase)), badge


@pytest.mark.parametrize("badge", sorted(set(get_args(Badge)) - {"stopped"}))
async def test_a_session_with_another_badge_is_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, badge: Badge
) -> None:
    many = [session(f"{at:03}", phase=Phase.STOPPED, stop_reason="completed") for at in range(50)]
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([Write(one.id, 0, (), one) for one in many])
        monkeypatch.setattr("supervisor.store.sqlite.read._decode_row", pytest.fail)

        assert await listed(store, Filter(badge=badge)) == []
