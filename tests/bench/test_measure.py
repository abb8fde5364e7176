import gc
import json

import pytest

from tests.bench._measure import Figure, Pair, figure_of, measure, paused_collector, take_sample
from tests.bench._row import Row, at_least, at_most, unless_installed
from tests.bench._table import Result, json_line, table


def a_row(**changes: object) -> Row:
    fields: dict[str, object] = {
        "name": "tell",
        "against": "a peer",
        "ours": lambda: 6.0,
        "peer": lambda: 2.0,
        "unit": "messages/s",
        "reach": at_least(2),
    }
    return Row(**(fields | changes))  # type: ignore[arg-type]  # the tests pass what each field takes


def a_figure(ratio: float, *, low: float = 0.0, high: float = 100.0) -> Figure:
    return Figure(ratio=ratio, low=low, high=high, ours=ratio, peer=1.0, pairs=15)


def test_the_figure_is_the_median_of_the_ratios_within_pairs() -> None:
    # The machine was ten times slower during the second pair: the ratio of the medians would be 10.
    pairs = [Pair(ours=20.0, peer=10.0), Pair(ours=2.0, peer=1.0), Pair(ours=30.0, peer=1.0)]

    assert figure_of(pairs).ratio == 2.0


def test_one_wild_pair_moves_neither_the_figure_nor_its_spread() -> None:
    calm = [Pair(ours=2.0, peer=1.0)] * 14

    figure = figure_of([*calm, Pair(ours=500.0, peer=1.0)])

    assert (figure.low, figure.ratio, figure.high) == (2.0, 2.0, 2.0)


def test_the_spread_is_the_quartiles() -> None:
    figure = figure_of([Pair(ours=float(ratio), peer=1.0) for ratio in range(1, 6)])

    assert (figure.low, figure.ratio, figure.high) == (2.0, 3.0, 4.0)


def test_a_single_pair_is_its_own_spread() -> None:
    figure = figure_of([Pair(ours=3.0, peer=2.0)])

    assert (figure.low, figure.ratio, figure.high, figure.pairs) == (1.5, 1.5, 1.5, 1)


def test_no_pairs_make_no_figure() -> None:
    with pytest.raises(ValueError, match="at least one"):
        figure_of([])


def test_the_order_within_pairs_is_swapped_every_time_after_a_warm_up() -> None:
    calls: list[str] = []

    def sample(who: str) -> float:
        calls.append(who)
        return 1.0

    row = a_row(ours=lambda: sample("ours"), peer=lambda: sample("peer"))

    measure(row, pairs=2)

    assert calls == ["ours", "peer", "ours", "peer", "peer", "ours"]


def test_the_garbage_collector_is_off_during_a_sample() -> None:
    assert take_sample(lambda: float(gc.isenabled()), collector="paused") == 0.0
    assert take_sample(lambda: float(gc.isenabled()), collector="running") == 1.0
    assert gc.isenabled()


def test_the_garbage_collector_is_enabled_after_a_failed_sample() -> None:
    with pytest.raises(ZeroDivisionError), paused_collector():
        _ = 1 / 0

    assert gc.isenabled()


@pytest.mark.parametrize(
    ("reach", "ratio", "reached"),
    [
        (at_least(2), 2.0, True),
        (at_least(2), 1.99, False),
        (at_most(3), 3.0, True),
        (at_most(3), 3.01, False),
        (None, 1.0, None),
    ],
)
def test_a_reach_is_judged_from_its_own_side(reach: object, ratio: float, reached: object) -> None:
    assert Result(a_row(reach=reach), a_figure(ratio)).reached is reached


def test_a_figure_is_close_when_its_quartiles_enclose_the_bound() -> None:
    assert a_figure(2.1, low=1.9, high=2.3).is_close_to(at_least(2))
    assert not a_figure(2.2, low=2.1, high=2.3).is_close_to(at_least(2))


def test_a_missing_peer_is_named_in_the_table_and_the_line() -> None:
    row = a_row(obstacle=unless_installed("no_such_peer"))
    result = Result(row, None, row.obstacle())

    assert "no_such_peer is not installed" in table([result])
    assert json.loads(json_line(result))["obstacle"] == "no_such_peer is not installed"


def test_a_missed_figure_is_shown_as_missed() -> None:
    result = Result(a_row(reach=at_least(10)), a_figure(5.0, low=4.0, high=6.0))

    assert "MISSED" in table([result])
    assert json.loads(json_line(result))["reached"] is False


def test_a_row_without_a_reach_is_information() -> None:
    result = Result(a_row(reach=None), a_figure(5.0))

    assert "info" in table([result])
    assert json.loads(json_line(result))["reached"] is None
