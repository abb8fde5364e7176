"""The lines and the selection of `top`, without a terminal."""

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from supervisor.cli.screens.top_filter import parse_filter
from supervisor.cli.screens.top_layout import GroupLine, SessionLine
from supervisor.cli.screens.top_model import HOLD_SECONDS, RESORT_SECONDS, TopModel
from supervisor.cli.screens.top_order import GROUPINGS, SORTS, Grouping, SortBy, group_of
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.session_values import Attention, LastOutcome, Phase
from supervisor.handles.session_rows import SessionGone, SessionRow
from tests.support.row_builders import (
    NOW,
    asking_row,
    failed_row,
    make_row,
    running_row,
    snapshot,
)

ENDED = LastOutcome("completed", None, NOW, TurnId("t_1"), 5)


def model_of(*rows: SessionRow, grouping: Grouping = "need") -> TopModel:
    model = TopModel()
    model.apply(snapshot(*rows))
    model.set_view(grouping=grouping)
    model.lay_out(0.0)
    return model


def keys(model: TopModel) -> list[str]:
    return [line.key for line in model.lines]


def later(model: TopModel, now: float = 100.0) -> list[str]:
    model.lay_out(now)
    return keys(model)


def test_sessions_are_grouped_by_need_and_the_urgent_come_first() -> None:
    model = model_of(make_row("calm"), running_row("busy"), asking_row("asks"))

    assert keys(model) == [
        "group:waiting", "s_asks", "group:running", "s_busy", "group:idle", "s_calm",
    ]  # fmt: skip
    assert model.selected == "s_asks"
    assert model.counts == {"waiting": 1, "running": 1, "idle": 1}


def test_a_deleted_session_stays_selected_on_its_line_until_the_user_moves() -> None:
    model = model_of(make_row("a"), make_row("b"), make_row("c"), grouping="flat")
    model.select("s_b")

    model.apply(SessionGone(SessionId("s_b")))

    assert later(model) == ["s_a", "s_b", "s_c"]
    entry = model.selected_entry
    assert entry is not None
    assert entry.is_deleted
    model.move(1)
    assert model.selected == "s_c"
    assert later(model) == ["s_a", "s_c"]


def test_a_snapshot_of_a_new_daemon_keeps_the_selection() -> None:
    model = model_of(make_row("a"), make_row("b"), grouping="flat")
    model.select("s_b")

    model.apply(snapshot(make_row("c"), make_row("b", tokens=5)))

    assert later(model) == ["s_b", "s_c"]
    assert model.selected == "s_b"


def test_lines_keep_their_places_while_the_user_acts() -> None:
    model = model_of(make_row("a"), make_row("b"))
    model.touch(10.0)

    model.apply(asking_row("b"))

    assert not model.lay_out(10.0 + HOLD_SECONDS / 2)
    assert model.changed >= {"s_b"}
    assert model.lay_out(10.0 + HOLD_SECONDS)
    assert keys(model) == ["group:waiting", "s_b", "group:idle", "s_a"]


def test_a_session_that_streams_changes_no_order() -> None:
    model = model_of(running_row("a"), running_row("b"))

    model.apply(running_row("a", last_text="more", tokens=7, last_active_at=2e6))

    assert not model.lay_out(100.0)


def test_a_list_sorted_by_activity_is_sorted_again_after_a_while() -> None:
    model = model_of(running_row("a"), running_row("b"), grouping="flat")
    model.set_view(sort="active")
    model.lay_out(0.0)

    model.apply(running_row("b", last_active_at=2e6))

    assert not model.lay_out(RESORT_SECONDS / 2)
    assert later(model, RESORT_SECONDS) == ["s_b", "s_a"]


def test_a_folded_parent_shows_the_worst_need_below_it() -> None:
    family = {"root": SessionId("s_top")}
    model = model_of(
        make_row("top"),
        running_row("mid", parent="s_top", depth=1, **family),
        asking_row("low", parent="s_mid", depth=2, **family),
        grouping="tree",
    )
    model.select("s_low")

    model.set_fold("s_top", is_folded=True)
    model.lay_out(1.0)

    assert model.lines == (SessionLine("s_top", 0, "folded", hidden=2, worst="waiting"),)
    assert model.selected == "s_top"
    model.toggle_fold()
    assert later(model) == ["s_top", "s_mid", "s_low"]


def test_a_selected_session_stays_visible_when_it_enters_a_folded_group() -> None:
    model = model_of(make_row("a"), running_row("b"))
    model.set_fold("group:idle", is_folded=True)
    model.select("s_b")

    model.apply(make_row("b"))

    assert later(model) == ["group:idle", "s_b"]
    model.select("group:idle")
    model.set_filter("")
    assert later(model) == ["group:idle"]


def test_a_filter_selects_the_first_match_unless_the_selected_session_matches() -> None:
    model = model_of(make_row("asks"), make_row("first", title="x"), make_row("last", title="x"))
    model.select("s_asks")

    model.set_filter("x")
    assert later(model) == ["group:idle", "s_first", "s_last"]
    assert model.selected == "s_first"
    model.select("s_last")
    model.set_filter("x l")
    later(model)
    assert model.selected == "s_last"
    model.set_filter("nobody")
    assert later(model) == []
    assert model.selected is None


def test_a_session_that_stops_to_match_by_itself_stays_selected() -> None:
    model = model_of(make_row("a"), running_row("b"), running_row("c"), grouping="flat")
    model.set_filter("badge:run")
    model.select("s_c")
    later(model)

    model.apply(make_row("c"))

    assert later(model) == ["s_b", "s_c"]
    assert model.selected == "s_c"


def test_a_filtered_tree_shows_the_parents_of_what_matches() -> None:
    model = model_of(make_row("top"), make_row("low", parent="s_top", tags=("x",)), grouping="tree")
    model.select("s_low")
    model.set_filter("tag:x")
    model.lay_out(1.0)

    assert model.lines == (
        SessionLine("s_top", 0, "open", is_context=True),
        SessionLine("s_low", 1),
    )


def test_a_stopped_session_leaves_and_a_failed_one_stays() -> None:
    model = model_of(make_row("a"), make_row("b"), make_row("c"), grouping="flat")

    model.apply(make_row("b", badge="stopped", phase=Phase.STOPPED))
    model.apply(failed_row("c"))

    assert later(model) == ["s_c", "s_a"]


def test_a_stopped_row_of_a_page_does_not_replace_a_newer_one() -> None:
    stopped = {"badge": "stopped", "phase": Phase.STOPPED}
    model = model_of(running_row("a", last_seq=5), grouping="flat")
    assert model.toggle_stopped()

    model.add_stopped([make_row("a", last_seq=4, **stopped), make_row("b", **stopped)])

    assert later(model) == ["s_a", "s_b"]
    assert model.entries["s_a"].row.badge == "running"
    assert model.counts == {"running": 1}
    model.apply(SessionGone(SessionId("s_b")))
    assert later(model) == ["s_a"]
    assert not model.toggle_stopped()


def test_the_next_urgent_session_is_found_below_and_then_from_the_top() -> None:
    model = model_of(asking_row("a"), make_row("b", badge="hung"), running_row("c"), make_row("d"))
    model.select("s_c")

    found = [model.selected for _ in range(3) if model.select_urgent()]

    assert found == ["s_a", "s_b", "s_a"]


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("", "abc"),
        ("agent:cl", "a"),
        ("badge:run tag:NIGHT", "b"),
        ("state:run tag:NIGHT", "b"),
        ("state:finished", "c"),
        ("state:idle", "ac"),
        ("workspace:/src", "c"),
        ("agent:", "abc"),
        ("s_", "abc"),
        ("hello", "c"),
        ("unknown:x", ""),
    ],
)
def test_a_filter_finds_rows(text: str, matching: str) -> None:
    rows = [
        make_row("a", agent="claude"),
        running_row("b", tags=("night",)),
        make_row("c", workspace="/src/site", last_text="Hello.", last_outcome=ENDED),
    ]

    assert "".join(row.name or "" for row in rows if parse_filter(text).matches(row)) == matching


def test_a_filter_finds_what_the_column_of_the_state_shows() -> None:
    failed = attrs.evolve(ENDED, outcome="failed")
    attention = (Attention("failed_turn", "why", NOW, 5),)
    rows = [
        make_row("a", last_outcome=failed, attention=attention),
        make_row("b", last_outcome=failed, seen_seq=9),
        asking_row("c"),
    ]

    def found(text: str) -> str:
        return "".join(row.name or "" for row in rows if parse_filter(text).matches(row))

    assert (found("state:turn-failed"), found("state:failed")) == ("a", "ab")
    assert (found("state:waiting"), found("badge:waiting-for-you")) == ("c", "c")


NAMES = "abcdefgh"
BADGES = ("waiting-for-you", "hung", "failed", "running", "idle", "suspended", "stopped")
rows = st.builds(
    lambda name, badge, parent, agent, tokens: make_row(
        name,
        badge=badge,
        phase=Phase.STOPPED if badge in ("failed", "stopped") else Phase.IDLE,
        attention=(Attention("failed_turn", None, 0.0, 1),) if badge == "failed" else (),
        # A parent comes before its children in the alphabet, so that no cycle is made.
        parent=f"s_{parent}" if parent < name else None,
        agent=agent,
        tokens=tokens,
    ),
    st.sampled_from(NAMES),
    st.sampled_from(BADGES),
    st.sampled_from(NAMES),
    st.sampled_from(["echo", "claude"]),
    st.integers(0, 5),
)


class CalmList(RuleBasedStateMachine):
    """Whatever arrives, the selection stays and every listed row is on exactly one line."""

    def __init__(self) -> None:
        super().__init__()
        self.model = TopModel()
        self.now = 0.0
        self.chosen: str | None = None

    @rule(row=rows)
    def change(self, row: SessionRow) -> None:
        self.model.apply(row)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.model.apply(SessionGone(SessionId(f"s_{name}")))

    @rule(rows=st.lists(rows, max_size=4, unique_by=lambda row: row.id))
    def restart(self, rows: list[SessionRow]) -> None:
        self.model.apply(snapshot(*rows))

    @rule(grouping=st.sampled_from(GROUPINGS), sort=st.sampled_from(SORTS))
    def arrange(self, grouping: Grouping, sort: SortBy) -> None:
        self.model.set_view(grouping=grouping, sort=sort)
        self.chosen = self.model.selected

    @rule(text=st.sampled_from(["", "agent:cl", "badge:idle", "a"]))
    def filter(self, text: str) -> None:
        self.model.set_filter(text)
        self.model.lay_out(self.now)
        entry = self.model.selected_entry
        assert not text or entry is None or (entry.matches and not entry.is_deleted)
        self.chosen = self.model.selected

    @rule(by=st.integers(-3, 3))
    def move(self, by: int) -> None:
        self.model.move(by)
        self.chosen = self.model.selected

    @rule()
    def fold(self) -> None:
        self.model.toggle_fold()
        self.chosen = self.model.selected

    @invariant()
    def the_list_is_complete_and_the_selection_is_the_chosen_one(self) -> None:
        self.now += 10.0
        self.model.lay_out(self.now)
        self.chosen = self.chosen or self.model.selected
        assert self.model.selected == self.chosen
        assert self.chosen is None or self.chosen in self.model.layout.index
        lines = [line for line in self.model.lines if isinstance(line, SessionLine)]
        listed = [line.key for line in lines if not line.is_context]
        groups = [line for line in self.model.lines if isinstance(line, GroupLine)]
        hidden = sum(line.hidden for line in lines)
        hidden += sum(
            line.count - len(self.members(line) & set(listed)) for line in groups if line.is_folded
        )
        assert len(set(listed)) == len(listed)
        assert set(listed) <= self.wanted()
        assert len(listed) + hidden == len(self.wanted())

    def wanted(self) -> set[str]:
        naive = parse_filter(self.model.row_filter.text)
        return {
            key
            for key, entry in self.model.entries.items()
            if key == self.model.selected or (not entry.is_leaving and naive.matches(entry.row))
        }

    def members(self, group: GroupLine) -> set[str]:
        return {
            key
            for key, entry in self.model.entries.items()
            if group_of(entry, self.model.view.grouping) == group.name
        }


TestCalmList = CalmList.TestCase
TestCalmList.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


@settings(deadline=None)
@given(st.lists(rows, unique_by=lambda row: row.id))
def test_counts_are_those_of_the_listed_rows(found: list[SessionRow]) -> None:
    model = model_of(*found)

    groups = {line.name: line.count for line in model.lines if isinstance(line, GroupLine)}

    assert groups == {need: count for need, count in model.counts.items() if count}
