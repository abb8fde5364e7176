"""What was spent, out of what agents report; see acp/news/usage.py."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.session import Usage
from supervisor.drivers.acp.news.usage import Meter


def usd(amount: object) -> dict[str, Any]:
    return {"cost": {"amount": amount, "currency": "USD"}}


def test_a_cost_is_that_of_the_session_so_far() -> None:
    meter = Meter()

    assert [meter.read_update(usd(amount)).cost for amount in (0.25, 0.25, 1.0)] == [0.25, 0, 0.75]


def test_a_cost_that_falls_is_where_it_goes_on_from() -> None:
    meter = Meter()

    assert [meter.read_update(usd(amount)).cost for amount in (4, 1, 2)] == [4, 0, 1]


def test_another_currency_is_another_count() -> None:
    meter = Meter()
    meter.read_update(usd(4))

    assert meter.read_update({"cost": {"amount": 1, "currency": "EUR"}}).cost == 1


def test_the_cost_goes_on_over_turns() -> None:
    meter = Meter()
    meter.read_update(usd(4))
    meter.begin_turn()

    assert meter.read_update(usd(5)).cost == 1


def test_a_cost_goes_on_where_the_process_before_has_left_it() -> None:
    meter = Meter()
    meter.carry_on(2.5)

    assert [meter.read_update(usd(amount)).cost for amount in (3, 4)] == [0.5, 1]


def test_a_cost_that_begins_anew_in_another_process_is_counted_from_there() -> None:
    meter = Meter()
    meter.carry_on(2.5)

    assert [meter.read_update(usd(amount)).cost for amount in (1, 3)] == [1, 2]


def test_what_the_agent_has_told_of_its_past_goes_before_what_we_have_counted() -> None:
    meter = Meter()
    meter.read_update(usd(4))
    meter.carry_on(2.5)

    assert meter.read_update(usd(5)).cost == 1


def test_what_the_context_grows_by_was_spent_at_least() -> None:
    meter = Meter()

    tokens = [meter.read_update({"used": used}).input_tokens for used in (100, 150, 20, 30)]

    assert tokens == [100, 50, 0, 10]


def test_the_tokens_in_the_answer_are_those_of_the_turn() -> None:
    meter = Meter()
    usage = {"totalTokens": 30, "inputTokens": 20, "outputTokens": 10}

    first = meter.read_answer({"usage": usage})
    meter.begin_turn()
    second = meter.read_answer({"usage": usage})

    assert first == second == Usage(20, 10)


def test_what_was_cached_counts_as_input_where_the_total_has_it_besides() -> None:
    usage = {"totalTokens": 42_678, "inputTokens": 3, "outputTokens": 22, "cachedWriteTokens": 9}

    assert Meter().read_answer({"usage": usage}) == Usage(42_656, 22)


def test_thoughts_count_as_output_where_the_total_has_them_besides() -> None:
    usage = {"totalTokens": 35, "inputTokens": 20, "outputTokens": 10, "thoughtTokens": 5}

    assert Meter().read_answer({"usage": usage}) == Usage(20, 15)


def test_thoughts_that_are_in_the_output_already_are_not_counted_twice() -> None:
    usage = {"totalTokens": 30, "inputTokens": 20, "outputTokens": 10, "thoughtTokens": 5}

    assert Meter().read_answer({"usage": usage}) == Usage(20, 10)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_was_guessed_is_never_counted_twice(used: int, given_: int, made: int) -> None:
    meter = Meter()

    guess = meter.read_update({"used": used})
    rest = meter.read_answer({"usage": {"inputTokens": given_, "outputTokens": made}})

    total = guess + rest
    assert total.input_tokens + total.output_tokens == max(used, given_ + made)


def test_numbers_that_are_none_count_nothing() -> None:
    meter = Meter()

    for odd in (None, "5", -1, True, 1e400, float("nan"), [5], 2**60):
        assert meter.read_update({"used": odd, **usd(odd)}) == Usage()
        usage = {"inputTokens": odd, "totalTokens": odd}
        assert meter.read_answer({"usage": usage}) == Usage()
        assert meter.read_text({"_meta": {"usage": usage}}) == Usage()
        assert meter.read_text({"_meta": odd}) == meter.read_answer({"_meta": odd}) == Usage()
    assert meter.read_answer({"usage": "nothing"}) == Usage()


# Where else it is said ----------------------------------------------------------------------


def test_tokens_may_stand_in_the_quota_of_the_answer() -> None:
    count = {"input_tokens": 10, "output_tokens": 5}

    assert Meter().read_answer({"_meta": {"quota": {"token_count": count}}}) == Usage(10, 5)


def test_what_the_protocol_has_a_place_for_goes_before_the_quota() -> None:
    usage = {"inputTokens": 10, "outputTokens": 5}
    quota = {"token_count": {"input_tokens": 99, "output_tokens": 99}}

    assert Meter().read_answer({"usage": usage, "_meta": {"quota": quota}}) == Usage(10, 5)


def of_a_request(given_: int, made: int) -> dict[str, Any]:
    return {"_meta": {"usage": {"inputTokens": given_, "outputTokens": made}}}


def test_requests_that_are_counted_one_by_one_add_up() -> None:
    meter = Meter()

    assert meter.read_text(of_a_request(10, 5)) == Usage(10, 5)
    assert meter.read_text(of_a_request(20, 1)) == Usage(20, 1)
    assert meter.read_text({"content": {"type": "text", "text": "more"}}) == Usage()


def test_where_requests_are_counted_the_context_is_no_guess_any_more() -> None:
    meter = Meter()

    guess = meter.read_update({"used": 15})
    counted = meter.read_text(of_a_request(10, 5))

    assert guess + counted == Usage(15, 0)
    assert meter.read_update({"used": 40}) == Usage()
    assert meter.read_answer({"usage": {"inputTokens": 10, "outputTokens": 5}}) == Usage()


def test_the_next_turn_counts_its_own_requests() -> None:
    meter = Meter()
    meter.read_text(of_a_request(10, 5))
    meter.begin_turn()

    assert meter.read_text(of_a_request(3, 4)) == Usage(3, 4)
