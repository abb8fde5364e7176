import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import BadSpec, Crashed, Exit, Finished, GaveUp, Killed, RestartPolicy, Stopped
from actors._restart import (
    GiveUp,
    NoRestart,
    Restart,
    RestartDecision,
    RestartKind,
    decide_restart,
    describe,
    restart_scope,
)
from tests.support.fake_actors import IntendedCrash

CRASHED = Crashed(IntendedCrash())
GAVE_UP = GaveUp("g", culprit="a", how="crashed", max_restarts=1, within_seconds=1.0)
EVERY_EXIT: list[Exit] = [Finished(), Stopped(), Killed(), CRASHED, GAVE_UP]

kinds = st.sampled_from(["permanent", "transient", "temporary"])
strategies = st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"])
instants = st.lists(st.floats(0, 100), max_size=8).map(sorted)
jitters = st.floats(0, 1, exclude_max=True)


def verdict(
    kind: RestartKind = "permanent",
    exit_: Exit = CRASHED,
    *,
    policy: RestartPolicy | None = None,
    recent: tuple[float, ...] = (),
    now: float = 100.0,
    jitter: float = 0.0,
) -> RestartDecision:
    policy = policy or RestartPolicy()
    return decide_restart(kind, exit_, policy=policy, recent=recent, now=now, jitter=jitter)


# Restart kinds ---------------------------------------------------------------------------


@pytest.mark.parametrize("exit_", EVERY_EXIT)
def test_a_permanent_child_restarts_after_every_end(exit_: Exit) -> None:
    assert isinstance(verdict("permanent", exit_), Restart)


@pytest.mark.parametrize("exit_", EVERY_EXIT)
def test_a_temporary_child_never_restarts(exit_: Exit) -> None:
    assert verdict("temporary", exit_) == NoRestart()


@pytest.mark.parametrize("exit_", [Killed(), CRASHED, GAVE_UP])
def test_a_transient_child_restarts_after_a_crash(exit_: Exit) -> None:
    assert isinstance(verdict("transient", exit_), Restart)


@pytest.mark.parametrize("exit_", [Finished(), Stopped()])
def test_a_transient_child_that_ended_well_stays_away(exit_: Exit) -> None:
    assert verdict("transient", exit_) == NoRestart()


# Intensity -------------------------------------------------------------------------------


def test_restarts_are_granted_up_to_the_allowed_number() -> None:
    policy = RestartPolicy(max_restarts=2, within_seconds=10.0)

    assert verdict(policy=policy, recent=(99.0,)) == Restart(0.0, (99.0, 100.0))
    assert verdict(policy=policy, recent=(98.0, 99.0)) == GiveUp()


def test_no_restart_allowed_means_the_first_crash_gives_up() -> None:
    assert verdict(policy=RestartPolicy(max_restarts=0)) == GiveUp()


def test_a_restart_exactly_as_old_as_the_window_still_counts() -> None:
    policy = RestartPolicy(max_restarts=1, within_seconds=5.0)

    assert verdict(policy=policy, recent=(95.0,)) == GiveUp()
    assert verdict(policy=policy, recent=(94.9,)) == Restart(0.0, (100.0,))


def test_an_endless_window_forgets_nothing() -> None:
    policy = RestartPolicy(max_restarts=1, within_seconds=math.inf)

    assert verdict(policy=policy, recent=(0.0,), now=1e9) == GiveUp()


@given(instants, st.integers(0, 4), st.floats(0, 20))
def test_restarts_in_any_window_stay_within_the_budget(
    crashes: list[float], max_restarts: int, within_seconds: float
) -> None:
    policy = RestartPolicy(max_restarts=max_restarts, within_seconds=within_seconds)
    recent: tuple[float, ...] = ()
    granted: list[float] = []

    for now in crashes:
        match verdict(policy=policy, recent=recent, now=now):
            case Restart(_, recent):
                granted.append(now)
            case _:
                break

    for end in granted:
        window = [at for at in granted if 0 <= end - at <= within_seconds]
        assert len(window) <= max_restarts


@given(kinds, st.sampled_from(EVERY_EXIT), instants, jitters)
def test_the_same_news_gets_the_same_verdict(
    kind: RestartKind, exit_: Exit, recent: list[float], jitter: float
) -> None:
    first, second = (verdict(kind, exit_, recent=tuple(recent), jitter=jitter) for _ in range(2))

    assert first == second


# Back-off --------------------------------------------------------------------------------


def pauses(policy: RestartPolicy, *, jitter: float = 0.0) -> list[float]:
    found: list[float] = []
    recent: tuple[float, ...] = ()
    for _ in range(policy.max_restarts):
        match verdict(policy=policy, recent=recent, jitter=jitter):
            case Restart(after_seconds, recent):
                found.append(after_seconds)
    return found


def test_the_pause_doubles_with_every_restart_in_the_window() -> None:
    assert pauses(RestartPolicy(max_restarts=4, backoff_seconds=0.5)) == [0.5, 1.0, 2.0, 4.0]


def test_the_pause_is_capped() -> None:
    policy = RestartPolicy(max_restarts=4, backoff_seconds=1.0, max_backoff_seconds=3.0)

    assert pauses(policy) == [1.0, 2.0, 3.0, 3.0]


def test_no_back_off_means_no_pause() -> None:
    assert pauses(RestartPolicy(max_restarts=3), jitter=0.9) == [0.0, 0.0, 0.0]


def test_very_many_restarts_do_not_overflow_the_pause() -> None:
    policy = RestartPolicy(max_restarts=5000, backoff_seconds=1.0)

    assert verdict(policy=policy, recent=(100.0,) * 4000) == Restart(60.0, (100.0,) * 4001)


@given(jitters, st.floats(0, 1e6), st.floats(0, 1e6))
def test_chance_takes_off_at_most_half_of_the_pause(
    jitter: float, first: float, cap: float
) -> None:
    policy = RestartPolicy(max_restarts=6, backoff_seconds=first, max_backoff_seconds=cap)

    for full, pause in zip(pauses(policy), pauses(policy, jitter=jitter), strict=True):
        assert full / 2 <= pause <= full <= cap


# Scope -----------------------------------------------------------------------------------

ROSTER: list[tuple[str, RestartKind]] = [
    ("a", "permanent"),
    ("b", "transient"),
    ("t", "temporary"),
    ("c", "permanent"),
]


def test_one_for_one_reaches_only_the_broken_child() -> None:
    found = restart_scope("one_for_one", ROSTER, ["b"])

    assert (found.halt, found.start) == (("b",), ("b",))


def test_one_for_all_halts_in_reverse_and_starts_in_order() -> None:
    found = restart_scope("one_for_all", ROSTER, ["b"])

    assert found.halt == ("c", "t", "b", "a")
    assert found.start == ("a", "b", "c")


def test_rest_for_one_reaches_the_broken_child_and_later_children() -> None:
    found = restart_scope("rest_for_one", ROSTER, ["b"])

    assert found.halt == ("c", "t", "b")
    assert found.start == ("b", "c")


def test_with_several_broken_rest_for_one_begins_at_the_first() -> None:
    assert restart_scope("rest_for_one", ROSTER, ["c", "b"]).start == ("b", "c")


@given(strategies, st.lists(kinds, max_size=6), st.sets(st.integers(0, 9)))
def test_a_temporary_child_is_never_started_again(
    strategy: str, kinds_: list[RestartKind], broken: set[int]
) -> None:
    roster = [(str(place), kind) for place, kind in enumerate(kinds_)]

    found = restart_scope(strategy, roster, [str(place) for place in broken])  # type: ignore[arg-type]

    assert set(found.start) == {n for n, kind in roster if n in found.halt and kind != "temporary"}
    assert list(found.halt) == sorted(found.halt, reverse=True)
    assert list(found.start) == sorted(found.start)


def test_no_child_is_in_the_restart_scope_without_a_broken_member() -> None:
    assert restart_scope("one_for_all", ROSTER, []).halt == ()
    assert restart_scope("rest_for_one", ROSTER, ["stranger"]).start == ()


# alidation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "sometimes"),
        ("kind", None),
        ("max_restarts", -1),
        ("max_restarts", 1.5),
        ("max_restarts", True),
        ("within_seconds", -1.0),
        ("within_seconds", math.nan),
        ("within_seconds", "5"),
        ("backoff_seconds", -0.1),
        ("backoff_seconds", math.inf),
        ("max_backoff_seconds", -0.1),
        ("max_backoff_seconds", math.inf),
        ("max_backoff_seconds", None),
    ],
)
def test_a_bad_policy_is_refused_naming_the_field(field: str, value: object) -> None:
    with pytest.raises(BadSpec, match=field) as refusal:
        RestartPolicy(**{field: value})  # type: ignore[arg-type]

    assert refusal.value.field == field
    assert field in refusal.value.hint


@pytest.mark.parametrize(
    ("exit_", "words"),
    [(CRASHED, "crashed with IntendedCrash"), (GAVE_UP, "gave up"), (Finished(), "finished")],
)
def test_an_exit_has_a_short_description(exit_: Exit, words: str) -> None:
    assert describe(exit_) == words
