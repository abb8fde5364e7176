"""Usage of a turn, computed from what agents report.

Agents report two things, and neither is the usage since the last report. `usage_update` has the
cost of the whole session so far and the tokens in the context. `usage` in the answer to a prompt
has the tokens of that turn; the protocol's text is contradictory there, but agents do so and its
maintainers mean it. Two agents use places of their own: Gemini the answer's `_meta.quota`, and Qwen
the `_meta.usage` of a text chunk, once per model request.

Budgets must bind while a turn runs, and some agents send only the first. So growth of the context
counts as input tokens until better figures arrive: each of those tokens was paid at least once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.core.state import Usage

from .fields import as_integer, as_mapping, as_number, as_text


class UsageMeter:
    """Turns cumulative reports into differences."""

    def __init__(self) -> None:
        self._cost = 0.0
        self._currency: str | None = None
        # Whether `_cost` is from the store and the agent has not reported a cost yet.
        self._is_resumed = False
        self._context_tokens = 0
        # Counted in this turn; growth of the context counts as input, which most of it is.
        self._turn_tokens = Usage()
        # Counted in this turn by single model requests; if not zero, growth is not counted.
        self._request_tokens = Usage()

    def begin_turn(self) -> None:
        """Reset the tokens of the turn; cost and context continue."""
        self._turn_tokens = Usage()
        self._request_tokens = Usage()

    def resume_from(self, cost: float) -> None:
        """Set the cost of a resumed conversation, unless the agent has reported one."""
        if not self._cost:
            self._cost, self._is_resumed = cost, True

    def read_update(self, update: Mapping[str, Any]) -> Usage:
        """Return the usage since the last `usage_update`.

        A figure that falls is a new count or a corrected estimate; counting continues from it.
        """
        grown, cost = self._read_context(update), self._read_cost(update)
        tokens = Usage(input_tokens=grown) if self._request_tokens == Usage() else Usage()
        self._turn_tokens += tokens
        return tokens + Usage(cost=cost)

    def read_text(self, update: Mapping[str, Any]) -> Usage:
        """Return the usage in a text chunk, of the model request that made it; mostly none."""
        usage = as_mapping(as_mapping(update.get("_meta")).get("usage"))
        self._request_tokens += _parse_tokens(usage)
        return self._count_turn_tokens(self._request_tokens)

    def read_prompt_result(self, answer: Mapping[str, Any]) -> Usage:
        """Return the tokens of the turn beyond those counted so far."""
        quota = as_mapping(as_mapping(answer.get("_meta")).get("quota"))
        return self._count_turn_tokens(
            _parse_tokens(as_mapping(answer.get("usage") or quota.get("token_count")))
        )

    def _count_turn_tokens(self, turn: Usage) -> Usage:
        """Raise the turn's tokens to these figures; return the difference."""
        counted = self._turn_tokens
        # Growth of the context counted as input that was output in fact.
        guessed = max(0, counted.input_tokens - turn.input_tokens)
        more = Usage(
            max(0, turn.input_tokens - counted.input_tokens),
            max(0, turn.output_tokens - counted.output_tokens - guessed),
        )
        self._turn_tokens += more
        return more

    def _read_cost(self, update: Mapping[str, Any]) -> float:
        cost = as_mapping(update.get("cost"))
        amount = as_number(cost.get("amount"))
        if amount is None:
            return 0.0
        currency = as_text(cost.get("currency"))
        before = self._cost if currency == self._currency or self._is_resumed else 0.0
        if self._is_resumed and amount < before:
            before = 0.0  # this agent counts from zero after a resume
        self._cost, self._currency, self._is_resumed = amount, currency, False
        return max(0.0, amount - before)

    def _read_context(self, update: Mapping[str, Any]) -> int:
        used = as_integer(update.get("used"))
        if used is None:
            return 0
        before, self._context_tokens = self._context_tokens, used
        return max(0, used - before)


def _parse_tokens(usage: Mapping[str, Any]) -> Usage:
    input_tokens = as_integer(usage.get("inputTokens", usage.get("input_tokens"))) or 0
    output_tokens = as_integer(usage.get("outputTokens", usage.get("output_tokens"))) or 0
    # Some agents count thought and cached tokens within these figures, some in addition; the total
    # shows which.
    additional = max(0, (as_integer(usage.get("totalTokens")) or 0) - input_tokens - output_tokens)
    thoughts = min(additional, as_integer(usage.get("thoughtTokens")) or 0)
    return Usage(input_tokens + additional - thoughts, output_tokens + thoughts)
