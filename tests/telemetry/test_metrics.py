"""Metrics: how records and snapshots become samples."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from supervisor.telemetry import Metrics, MetricsSnapshot, RecordMeter, measure_lag


def figures(metrics: Metrics) -> dict[str, float]:
    """Return every sample by name and labels."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        sample.name + "".join(f"|{value}" for value in sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def metered(*records: tuple[str, dict[str, object], float]) -> dict[str, float]:
    metrics = Metrics(MetricsSnapshot)
    meter = RecordMeter(metrics)
    for kind, body, at in records:
        meter.count(kind, body, at=at, agent="coder")
    return figures(metrics)


def test_turns_are_counted_and_measured() -> None:
    found = metered(
        ("turn_ended", {"outcome": "completed", "seconds": 2.0, "turn_id": "t1"}, 1.0),
        ("turn_ended", {"outcome": "failed", "seconds": 0.5, "turn_id": "t2"}, 2.0),
    )

    assert found["understudy_turns_total|coder|completed"] == 1
    assert found["understudy_turns_total|coder|failed"] == 1
    assert found["understudy_turn_seconds_sum|completed"] == 2.0


def test_an_input_waits_from_its_acceptance_to_its_turn() -> None:
    found = metered(
        ("input_accepted", {"input_id": "i1"}, 10.0),
        ("input_accepted", {"input_id": "i2"}, 10.0),
        ("input_settled", {"input_id": "i1", "outcome": "delivered"}, 12.5),
        ("input_settled", {"input_id": "i2", "outcome": "cancelled"}, 99.0),
        ("input_settled", {"input_id": "before us", "outcome": "delivered"}, 99.0),
    )

    assert found["understudy_inputs_accepted_total"] == 2
    assert found["understudy_inputs_total|delivered"] == 2
    assert found["understudy_inputs_total|cancelled"] == 1
    assert (
        found["understudy_input_wait_seconds_sum"],
        found["understudy_input_wait_seconds_count"],
    ) == (2.5, 1)


def test_an_interrupt_is_counted_once_for_all_ladder_steps() -> None:
    found = metered(
        ("interrupted", {"scope": "turn", "turn_id": "t1", "step": "ask"}, 5.0),
        ("interrupted", {"scope": "turn", "turn_id": "t1", "step": "kill"}, 9.0),
        ("turn_ended", {"outcome": "interrupted", "seconds": 6.0, "turn_id": "t1"}, 11.0),
        ("interrupted", {"scope": "tool_call", "call_id": "c1", "unreachable": 0}, 12.0),
        ("interrupted", {"scope": "tool_call", "call_id": "c1", "unreachable": 1}, 17.0),
    )

    assert found["understudy_interrupts_total|turn"] == 1
    assert found["understudy_interrupts_total|tool_call"] == 1
    assert found["understudy_interrupt_seconds_sum"] == 6.0


def test_usage_counters_only_grow() -> None:
    found = metered(
        ("usage", {"input_tokens": 5, "output_tokens": 2, "cost": 0.25}, 1.0),
        ("usage", {"input_tokens": -5, "output_tokens": 0, "cost": -1.0}, 1.0),
    )

    assert found["understudy_tokens_total|coder|input"] == 5
    assert found["understudy_tokens_total|coder|output"] == 2
    assert found["understudy_cost_total|coder"] == 0.25


@pytest.mark.parametrize(
    ("kind", "body", "name"),
    [
        ("session_created", {}, "sessions_created_total|coder"),
        ("session_stopped", {"reason": "timeout"}, "sessions_stopped_total|timeout"),
        ("stalled", {}, "stalls_total"),
        ("agent_restarting", {}, "agent_restarts_total|coder"),
        ("spawn_refused", {"limit": "max_depth"}, "spawns_refused_total|max_depth"),
        ("child_started", {"resumed": False}, "spawns_total"),
        ("tool_ended", {"outcome": "failed"}, "tool_calls_total|failed"),
        ("permission_answered", {"decision": "allow_once"}, "permissions_total|allow_once"),
        ("foreign", {}, "records_total|foreign"),
    ],
)
def test_a_record_is_counted(kind: str, body: dict[str, object], name: str) -> None:
    assert metered((kind, body, 1.0))[f"understudy_{name}"] == 1


def test_an_empty_record_is_counted_without_error() -> None:
    kinds = RecordMeter(Metrics(MetricsSnapshot))._counters

    metered(*((kind, {}, 1.0) for kind in kinds))


def test_a_snapshot_is_taken_on_each_scrape() -> None:
    phases = {"idle": 1}
    metrics = Metrics(
        lambda: MetricsSnapshot(phases=dict(phases), store_degraded=True, version="1.2")
    )
    assert figures(metrics)["understudy_sessions|idle"] == 1

    phases["idle"] = 7

    found = figures(metrics)
    assert found["understudy_sessions|idle"] == 7
    assert found["understudy_store_degraded"] == 1
    assert found["understudy_build_info|1.2"] == 1


def test_the_metrics_include_the_process() -> None:
    assert figures(Metrics(MetricsSnapshot))["process_open_fds"] > 0


def test_names_have_their_prefix_and_base_units() -> None:
    text = Metrics(MetricsSnapshot).render().decode()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}

    ours = {name for name in names if not name.startswith(("process_", "python_"))}
    assert all(name.startswith("understudy_") for name in ours)
    assert not [name for name in ours if name.endswith(("_ms", "_kb", "_minutes"))]


async def test_the_lag_of_the_loop_is_seen(autojump_clock: trio.testing.MockClock) -> None:
    seen: list[float] = []
    with trio.move_on_after(1.1):
        await measure_lag(seen.append)

    assert seen == [0.0] * 4
