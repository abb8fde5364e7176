"""Usage from the reports of agents; see acp/usage_meter.py."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.state import Usage
from supervisor.drivers.acp.updates import UsageMeter


def usd(amount: object) -> dict[str, Any]:
    return {"cost": {"amount": amount, "currency": "USD"}}


def test_a_reported_cost_is_cumulative() -> None:
    meter = UsageMeter()

    assert [meter.read_update(usd(amount)).cost for amount in (0.25, 0.25, 1.0)] == [0.25, 0, 0.75]


def test_counting_continues_from_a_lower_cost() -> None:
    meter = UsageMeter()

    assert [meter.read_update(usd(amount)).cost for amount in (4, 1, 2)] == [4, 0, 1]


def test_another_currency_starts_a_new_count() -> None:
    meter = UsageMeter()
    meter.read_update(usd(4))

    assert meter.read_update({"cost": {"amount": 1, "currency": "EUR"}}).cost == 1


def test_the_cost_continues_over_turns() -> None:
    meter = UsageMeter()
    meter.read_update(usd(4))
    meter.begin_turn()

    assert meter.read_update(usd(5)).cost == 1


def test_the_cost_continues_after_a_restart_of_the_agent() -> None:
    meter = UsageMeter()
    meter.resume_from(2.5)

    assert [meter.read_update(usd(amount)).cost for amount in (3, 4)] == [0.5, 1]


def test_a_cost_that_restarts_from_zero_is_counted() -> None:
    meter = UsageMeter()
    meter.resume_from(2.5)

    assert [meter.read_update(usd(amount)).cost for amount in (1, 3)] == [1, 2]


def test_a_replayed_cost_goes_before_the_recorded_cost() -> None:
    meter = UsageMeter()
    meter.read_update(usd(4))
    meter.resume_from(2.5)

    assert meter.read_update(usd(5)).cost == 1


def test_growth_of_the_context_counts_as_input() -> None:
    meter = UsageMeter()

    tokens = [meter.read_update({"used": used}).input_tokens for used in (100, 150, 20, 30)]

    assert tokens == [100, 50, 0, 10]


def test_tokens_in_the_prompt_result_count_for_the_turn() -> None:
    meter = UsageMeter()
    usage = {"totalTokens": 30, "inputTokens": 20, "outputTokens": 10}

    first = meter.read_prompt_result({"usage": usage})
    meter.begin_turn()
    second = meter.read_prompt_result({"usage": usage})

    assert first == second == Usage(20, 10)


def test_cached_tokens_beyond_the_figures_count_as_input() -> None:
    usage = {"totalTokens": 42_678, "inputTokens": 3, "outputTokens": 22, "cachedWriteTokens": 9}

    assert UsageMeter().read_prompt_result({"usage": usage}) == Usage(42_656, 22)


def test_thought_tokens_beyond_the_figures_count_as_output() -> None:
    usage = {"totalTokens": 35, "inputTokens": 20, "outputTokens": 10, "thoughtTokens": 5}

    assert UsageMeter().read_prompt_result({"usage": usage}) == Usage(20, 15)


def test_thought_tokens_within_the_output_are_counted_once() -> None:
    usage = {"totalTokens": 30, "inputTokens": 20, "outputTokens": 10, "thoughtTokens": 5}

    assert UsageMeter().read_prompt_result({"usage": usage}) == Usage(20, 10)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_estimated_tokens_are_never_counted_twice(used: int, given_: int, made: int) -> None:
    meter = UsageMeter()

    guess = meter.read_update({"used": used})
    rest = meter.read_prompt_result({"usage": {"inputTokens": given_, "outputTokens": made}})

    total = guess + rest
    assert total.input_tokens + total.output_tokens == max(used, given_ + made)


def test_invalid_numbers_count_nothing() -> None:
    meter = UsageMeter()

    for odd in (None, "5", -1, True, 1e400, float("nan"), [5], 2**60):
        assert meter.read_update({"used": odd, **usd(odd)}) == Usage()
        usage = {"inputTokens": odd, "totalTokens": odd}
        assert meter.read_prompt_result({"usage": usage}) == Usage()
        assert meter.read_text({"_meta": {"usage": usage}}) == Usage()
        assert (
            meter.read_text({"_meta": odd}) == meter.read_prompt_result({"_meta": odd}) == Usage()
        )
    assert meter.read_prompt_result({"usage": "nothing"}) == Usage()


# Other places of usage ----------------------------------------------------------------------


def test_tokens_are_read_from_the_quota_of_the_result() -> None:
    count = {"input_tokens": 10, "output_tokens": 5}

    assert UsageMeter().read_prompt_result({"_meta": {"quota": {"token_count": count}}}) == Usage(
        10, 5
    )


def test_usage_goes_before_the_quota() -> None:
    usage = {"inputTokens": 10, "outputTokens": 5}
    quota = {"token_count": {"input_tokens": 99, "output_tokens": 99}}

    assert UsageMeter().read_prompt_result({"usage": usage, "_meta": {"quota": quota}}) == Usage(
        10, 5
    )


def of_a_request(given_: int, made: int) -> dict[str, Any]:
    return {"_meta": {"usage": {"inputTokens": given_, "outputTokens": made}}}


def test_tokens_of_single_model_requests_add_up() -> None:
    meter = UsageMeter()

    assert meter.read_text(of_a_request(10, 5)) == Usage(10, 5)
    assert meter.read_text(of_a_request(20, 1)) == Usage(20, 1)
    assert meter.read_text({"content": {"type": "text", "text": "more"}}) == Usage()


def test_the_context_is_not_counted_if_requests_are() -> None:
    meter = UsageMeter()

    guess = meter.read_update({"used": 15})
    counted = meter.read_text(of_a_request(10, 5))

    assert guess + counted == Usage(15, 0)
    assert meter.read_update({"used": 40}) == Usage()
    assert meter.read_prompt_result({"usage": {"inputTokens": 10, "outputTokens": 5}}) == Usage()


def test_the_next_turn_counts_its_own_requests() -> None:
    meter = UsageMeter()
    meter.read_text(of_a_request(10, 5))
    meter.begin_turn()

    assert meter.read_text(of_a_request(3, 4)) == Usage(3, 4)
