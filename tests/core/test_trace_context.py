"""Trace context of an input: what is valid, and what is left out."""

from __future__ import annotations

import pytest

from supervisor.core.errors import InputRefused
from supervisor.core.trace_context import MAX_BAGGAGE_LETTERS, check_trace, valid_trace

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "trace",
    [
        {},
        {"traceparent": PARENT},
        {"traceparent": PARENT, "tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"},
        {"traceparent": PARENT, "tracestate": "a@b=1, c=2"},
        {"baggage": "userId=alice,server=DF%2028;meta=1, flag = on"},
    ],
)
def test_a_valid_context_is_kept(trace: dict[str, str]) -> None:
    assert check_trace(trace) == valid_trace({**trace, "other": 1}) == trace


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("traceparent", ""),
        ("traceparent", PARENT.upper()),
        ("traceparent", PARENT + "\n"),
        ("traceparent", "ff" + PARENT[2:]),
        ("traceparent", "00-" + "0" * 32 + PARENT[35:]),
        ("traceparent", PARENT[:36] + "0" * 16 + "-01"),
        ("traceparent", 5),
        ("tracestate", "no member"),
        ("tracestate", "a=1," * 200),
        ("tracestate", ",".join(f"a{number}=1" for number in range(33))),
        ("tracestate", "a=\n"),
        ("baggage", "a b=1"),
        ("baggage", 'a="1"'),
        ("baggage", "a=ä"),
        ("baggage", "a=" + "b" * MAX_BAGGAGE_LETTERS),
        ("baggage", None),
    ],
)
def test_an_invalid_field_is_left_out_or_refused(name: str, value: object) -> None:
    trace = {"traceparent": PARENT, name: value}

    assert name not in valid_trace(trace)
    with pytest.raises(InputRefused):
        check_trace(trace)


def test_a_state_without_a_parent_is_left_out() -> None:
    assert valid_trace({"tracestate": "a=1"}) == {}


@pytest.mark.parametrize("trace", ["a", {"other": "1"}, [("baggage", "a=1")], 5])
def test_only_a_mapping_of_its_fields_is_a_context(trace: object) -> None:
    with pytest.raises(InputRefused):
        check_trace(trace)
