"""The levels of a tree interrupt, and the sum of the reports of its members."""

from __future__ import annotations

import pytest

from supervisor.core.ids import InputId, SessionId
from supervisor.core.receipts import InterruptReport
from supervisor.core.state import LadderStep, PendingInput, Phase, SessionState
from supervisor.core.tree.node import TreeNode
from supervisor.core.tree.tree_interrupt import is_about_to_run, levels_below, merge_reports

WAITING = PendingInput(
    id=InputId("in_1"),
    number=1,
    text="go",
    when_busy="queue",
    source="user",
    accepted_at=0.0,
    generation=0,
)


def node(name: str, parent: TreeNode | None = None) -> TreeNode:
    made = TreeNode(
        SessionId(name), parent, 0 if parent is None else parent.depth + 1, "with_parent"
    )
    if parent is not None:
        parent.children[made.id] = made
    return made


def test_levels_have_the_deepest_first_and_not_the_named_session() -> None:
    root = node("root")
    left, right = node("left", root), node("right", root)
    node("below", right)
    node("other", left)

    assert [set(level) for level in levels_below(root)] == [{"below", "other"}, {"left", "right"}]
    assert levels_below(right) == (("below",),)
    assert levels_below(left.children[SessionId("other")]) == ()


@pytest.mark.parametrize(
    ("steps", "highest"),
    [
        ((), None),
        ((None, None), None),
        (("ask", None), "ask"),
        (("kill", "ask"), "kill"),
        (("close", "terminate"), "terminate"),
    ],
)
def test_the_report_of_a_tree_has_the_highest_step(
    steps: tuple[LadderStep | None, ...], highest: LadderStep | None
) -> None:
    reports = [InterruptReport("turn", ladder_step=step) for step in steps]

    assert merge_reports(reports) == InterruptReport("tree", ladder_step=highest)


def test_the_report_of_a_tree_has_the_sums() -> None:
    reports = [
        InterruptReport("tree", matched=1, stopped=1),
        InterruptReport("tree", matched=1, unreachable=1),
        InterruptReport("tree", already_over=1, stale=1),
    ]

    assert merge_reports(reports) == InterruptReport(
        "tree", matched=2, stopped=1, already_over=1, stale=1, unreachable=1
    )


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("inputs", [(), (WAITING,)])
def test_only_a_starting_session_with_input_is_about_to_run(
    phase: Phase, inputs: tuple[PendingInput, ...]
) -> None:
    session = SessionState(id=SessionId("s_1"), agent_name="a", phase=phase, inputs=inputs)
    starts = phase in (Phase.STARTING, Phase.RESTARTING)

    assert is_about_to_run(session) == (starts and bool(inputs))
