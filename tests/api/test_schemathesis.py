"""What schemathesis makes of our document, sent to the app: everything that is said there is so.

The cases are the same in each run. Each operation gets a house of its own, with sessions in several
phases, whose ids take the place of most of those that were made up.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

import supervisor
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.api.openapi import openapi_document
from supervisor.api.routes import OPERATIONS
from supervisor.http_server.gate import UnixGate
from tests.support.virtual_time import run_in_virtual_time

schemathesis = pytest.importorskip("schemathesis")
checks: Any = pytest.importorskip("schemathesis.specs.openapi.checks")

SCHEMA = schemathesis.openapi.from_dict(orjson.loads(openapi_document(OPERATIONS, version="0")))
# Streams do not end; after a drain nothing is taken any more, which is a 503 by right.
LEFT_OUT = {"GET /v1/watch", "GET /v1/stream", "GET /v1/sessions/{id}/stream", "POST /v1/drain"}
CALLS = {one.ok().label: one.ok() for one in SCHEMA.get_all_operations()}
LABELS = sorted(set(CALLS) - LEFT_OUT)
MODES = list(schemathesis.GenerationMode)
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]


def cases_of(label: str, mode: Any, most: int) -> list[Any]:  # noqa: ANN401 - schemathesis's own
    """What it makes up for an operation, the same each time; nothing, if nothing can be wrong."""
    found: list[Any] = []

    @settings(
        max_examples=most,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(CALLS[label].as_strategy(generation_mode=mode))
    def collect(case: Any) -> None:  # noqa: ANN401 - as above
        found.append(case)

    with contextlib.suppress(Unsatisfiable):
        collect()
    return found


def is_about_ids(case: Any) -> bool:  # noqa: ANN401 - as above
    """Whether what is wrong with it is an id."""
    locations = {where.name: part.mode for where, part in case.meta.components.items()}
    return locations.get("PATH") is schemathesis.GenerationMode.NEGATIVE


async def play(cases: list[Any], folder: Path) -> None:
    async with supervisor.open(":memory:") as sup:
        drain_state = DrainState()
        drain_state.open()
        app = make_app(
            sup,
            gate=UnixGate(own_uid=None),
            drain_state=drain_state,
            metrics=lambda: b"a 1\n",
            backup_folder=folder / "backups",
        )
        busy, asking, stopped = [await sup.create("scripted") for _ in range(3)]
        await busy.send("tool bash 600")
        waiting = (await busy.send("say later")).input_id
        await asking.send("ask bash")
        await stopped.stop()
        request = (await sup.permissions())[0].id
        ids = itertools.cycle(
            [
                {"id": busy.id, "input": waiting, "request": request, "rule": "rule_none"},
                {"id": asking.id, "input": "in_none", "request": "req_none", "rule": "rule_none"},
                {"id": stopped.id, "input": waiting, "request": request, "rule": "rule_none"},
                {},
            ]
        )
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for case in cases:
                real = next(ids)
                if not is_about_ids(case):
                    for name in set(case.path_parameters) & set(real):
                        case.path_parameters[name] = real[name]
                is_import = case.path == "/v1/import" and isinstance(case.body, dict)
                if is_import and isinstance(case.body.get("path"), str):
                    case.body["path"] = str(folder / "nowhere" / "at all")
                await check(client, case)


async def check(client: httpx.AsyncClient, case: Any) -> None:  # noqa: ANN401 - as above
    sent = case.as_transport_kwargs(base_url="http://localhost")
    sent.pop("cookies")
    if "data" in sent:
        sent["content"] = sent.pop("data")
    answer = await client.request(**sent, timeout=10_000)
    case.validate_response(answer, checks=CHECKS)


def hold_to_the_document(
    label: str, most: int, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cases = [case for mode in MODES for case in cases_of(label, mode, most)]
    assert cases

    async def main() -> None:
        await play(cases, folder)

    with caplog.at_level(logging.ERROR, logger="supervisor.api"):
        run_in_virtual_time(main, clock=None, instruments=())
    assert not [one for one in caplog.records if one.name == "supervisor.api"]


@pytest.mark.parametrize("label", LABELS)
def test_the_app_conforms_to_the_document(
    label: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hold_to_the_document(label, 8, tmp_path, caplog)


@pytest.mark.soak
@pytest.mark.parametrize("label", LABELS)
def test_the_app_conforms_to_the_document_in_sequences(
    label: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("covered", "300 examples")
    hold_to_the_document(label, 300, tmp_path, caplog)
