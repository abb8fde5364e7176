"""What a turn has cost, worked out of what agents report.

Two things are reported, and neither is what was spent since the last time. `usage_update` has the
cost of the whole session so far, and how many tokens are in the context. `usage` in the answer to a
prompt has the tokens of that turn; the protocol's own words contradict each other there, but that
is what agents do, and what its maintainers mean. Two agents say the same in places of their own:
Gemini in the answer's `_meta.quota`, and Qwen in the `_meta.usage` of a text, for each request that
it has made of its model.

Budgets have to bind while a turn runs, and some agents only send the first. So what the context
grows by counts until something better is known: each of those tokens was paid for, at least once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.core.session import Usage
from supervisor.drivers.acp.reading import as_mapping, as_number, as_text, as_whole


class Meter:
    """What was reported before, by which a new report is a difference."""

    def __init__(self) -> None:
        self._cost = 0.0
        self._currency: str | None = None
        # Whether nothing was said yet about a cost of which we know from before.
        self._is_carried_on = False
        self._context = 0
        # Of this turn; what the context has grown by is taken for input, which most of it is.
        self._tokens = Usage()
        # As far as its requests were counted one by one: then nothing need be guessed.
        self._requests = Usage()

    def begin_turn(self) -> None:
        """Tokens are this turn's from now on; cost and context go on."""
        self._tokens = Usage()
        self._requests = Usage()

    def carry_on(self, cost: float) -> None:
        """The conversation has cost that much so far, unless the agent itself has said how much."""
        if not self._cost:
            self._cost, self._is_carried_on = cost, True

    def read_update(self, update: Mapping[str, Any]) -> Usage:
        """What a `usage_update` says was spent since the last one.

        A number that falls is another count, or was an estimate: it is where we go on from.
        """
        grown, cost = self._read_context(update), self._read_cost(update)
        tokens = Usage(input_tokens=grown) if self._requests == Usage() else Usage()
        self._tokens += tokens
        return tokens + Usage(cost=cost)

    def read_text(self, update: Mapping[str, Any]) -> Usage:
        """What a piece of text says that the request took which it came of; mostly nothing."""
        usage = as_mapping(as_mapping(update.get("_meta")).get("usage"))
        self._requests += _tokens(usage)
        return self._up_to(self._requests)

    def read_answer(self, answer: Mapping[str, Any]) -> Usage:
        """What the tokens of the turn are more than was counted so far."""
        quota = as_mapping(as_mapping(answer.get("_meta")).get("quota"))
        return self._up_to(_tokens(as_mapping(answer.get("usage") or quota.get("token_count"))))

    def _up_to(self, turn: Usage) -> Usage:
        """Count the turn's tokens; gives what that is more than before."""
        counted = self._tokens
        guessed = max(0, counted.input_tokens - turn.input_tokens)  # and was output, then
        more = Usage(
            max(0, turn.input_tokens - counted.input_tokens),
            max(0, turn.output_tokens - counted.output_tokens - guessed),
        )
        self._tokens += more
        return more

    def _read_cost(self, update: Mapping[str, Any]) -> float:
        cost = as_mapping(update.get("cost"))
        amount = as_number(cost.get("amount"))
        if amount is None:
            return 0.0
        currency = as_text(cost.get("currency"))
        before = self._cost if currency == self._currency or self._is_carried_on else 0.0
        if self._is_carried_on and amount < before:
            before = 0.0  # not everybody goes on counting: this one has begun anew
        self._cost, self._currency, self._is_carried_on = amount, currency, False
        return max(0.0, amount - before)

    def _read_context(self, update: Mapping[str, Any]) -> int:
        used = as_whole(update.get("used"))
        if used is None:
            return 0
        before, self._context = self._context, used
        return max(0, used - before)


def _tokens(usage: Mapping[str, Any]) -> Usage:
    given = as_whole(usage.get("inputTokens", usage.get("input_tokens"))) or 0
    made = as_whole(usage.get("outputTokens", usage.get("output_tokens"))) or 0
    # Some count thoughts and what was cached inside of these, some beside them; the total tells.
    beside = max(0, (as_whole(usage.get("totalTokens")) or 0) - given - made)
    thoughts = min(beside, as_whole(usage.get("thoughtTokens")) or 0)
    return Usage(given + beside - thoughts, made + thoughts)
