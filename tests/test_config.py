"""Settings: sensible by default, and invalid values are refused by name."""

import math
from typing import Any

import attrs
import pytest

from supervisor.config import Settings
from supervisor.core.errors import ConfigError
from supervisor.core.limits import Ladder, Limits, Restart

KINDS: list[type[Any]] = [Settings, Limits, Restart, Ladder]
NUMBERS = [
    (kind, field.name)
    for kind in KINDS
    for field in attrs.fields(kind)
    if "int" in str(field.type) or "float" in str(field.type)
]
WORDS = [(Settings, "steer_fallback"), (Settings, "on_stall"), (Restart, "policy")]
PARTS = ["limits", "restart", "ladder", "answers_for_children"]


def test_every_field_is_a_number_a_word_or_a_part() -> None:
    known = {*NUMBERS, *WORDS, *((Settings, part) for part in PARTS)}

    assert known == {(kind, field.name) for kind in KINDS for field in attrs.fields(kind)}


@pytest.mark.parametrize(("kind", "field"), NUMBERS)
@pytest.mark.parametrize("value", [-1, math.nan, "5", True, [1]])
def test_an_invalid_number_is_refused_naming_the_field(
    kind: type[Any], field: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=field) as refusal:
        kind(**{field: value})

    assert field in refusal.value.hint


@pytest.mark.parametrize(("kind", "field"), WORDS)
@pytest.mark.parametrize("value", ["sometimes", "", None, 5])
def test_an_unknown_choice_is_refused_with_the_choices(
    kind: type[Any], field: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=field) as refusal:
        kind(**{field: value})

    assert "one of" in refusal.value.hint


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_wrong_kind_is_refused(part: str) -> None:
    wrong: dict[str, Any] = {part: {"max_depth": 3}}

    with pytest.raises(ConfigError, match=part):
        Settings(**wrong)


@pytest.mark.parametrize("cap", [0, 1001])
def test_the_queue_cap_has_a_lower_and_an_upper_bound(cap: int) -> None:
    with pytest.raises(ConfigError, match="from 1 to 1000"):
        Settings(queue_cap=cap)


def test_restarts_are_counted_over_some_time() -> None:
    with pytest.raises(ConfigError, match="above 0"):
        Restart(within_seconds=0.0)


def test_none_means_no_limit_where_a_limit_may_be_missing() -> None:
    settings = Settings(turn_deadline_seconds=None, limits=Limits(tokens=None, cost=None))

    assert settings.limits.tokens is None


@pytest.mark.parametrize("field", ["exit_seconds", "suspend_after_seconds"])
def test_a_number_beyond_all_clocks_is_refused(field: str) -> None:
    huge: dict[str, Any] = {field: 10**400}

    with pytest.raises(ConfigError, match=field):
        Settings(**huge)


def test_settings_are_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Settings().queue_cap = 11  # type: ignore[misc]
