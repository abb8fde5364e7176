"""The page of the scripted agent lists steps, flags and actions as the code has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from supervisor.drivers.scripted import (
    ScriptedAgent,
    client_steps,
    mcp_steps,
    misbehave,
    news_steps,
    steps,
)
from supervisor.drivers.scripted.flags import FLAGS, PERMISSION_KINDS, PHASES, STEERING_OUTCOMES
from supervisor.drivers.scripted.steps import ALL_STEPS
from supervisor.drivers.scripted.turn import Step
from supervisor.drivers.scripted.wire import ActionKind

PAGE = (Path(__file__).parents[3] / "docs/reference/scripted.md").read_text()


def rows(heading: str, head: str) -> list[list[str]]:
    """Return the cells of a table under that heading, without the backquotes."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = section.partition(f"\n| {head} |")[2].partition("\n\n")[0]
    lines = table.splitlines()[2:]
    cells = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    return [[first.strip("`"), *rest] for first, *rest in cells]


def of_code(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("heading", "steps"),
    [
        ("Steps of every scripted agent", steps.COMMON_STEPS),
        ("Steps that need a client", client_steps.CLIENT_STEPS),
        ("Steps that need our tools", mcp_steps.MCP_STEPS),
        ("Steps that report news", news_steps.NEWS_STEPS),
        ("Steps that misbehave", misbehave.MISBEHAVE_STEPS),
    ],
)
def test_the_page_describes_every_step(heading: str, steps: Mapping[str, Step]) -> None:
    assert rows(heading, "step") == [
        [usage, of_code(step.__doc__ or "")] for usage, step in steps.items()
    ]


def test_no_step_has_the_name_of_another() -> None:
    words = [usage.partition(" ")[0] for usage in ALL_STEPS]

    tables = (
        steps.COMMON_STEPS,
        client_steps.CLIENT_STEPS,
        mcp_steps.MCP_STEPS,
        news_steps.NEWS_STEPS,
        misbehave.MISBEHAVE_STEPS,
    )
    assert len(set(words)) == sum(map(len, tables))


def test_the_page_describes_every_flag() -> None:
    assert rows("Flags", "flag") == [
        [f"{flag.name} {flag.value or ''}".strip(), flag.help] for flag in FLAGS
    ]


@pytest.mark.parametrize("words", [PHASES, STEERING_OUTCOMES, PERMISSION_KINDS])
def test_the_page_lists_the_values_that_flags_take(words: tuple[str, ...]) -> None:
    quoted = [f"`{word}`" for word in words]

    assert f"one of {', '.join(quoted[:-1])} or {quoted[-1]}" in of_code(PAGE) or (
        f"one or more of {', '.join(quoted[:-1])} and {quoted[-1]}" in of_code(PAGE)
    )


def test_the_page_lists_the_actions() -> None:
    assert [cells[0] for cells in rows("Without a process", "action")] == list(get_args(ActionKind))


def test_the_page_lists_the_public_names_of_an_agent() -> None:
    public = [name for name in vars(ScriptedAgent) if not name.startswith("_")]

    assert [name for name in public if f"`agent.{name}" not in PAGE] == []
