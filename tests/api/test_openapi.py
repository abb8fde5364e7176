"""The OpenAPI document: valid, whole, and true."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.types import ASGIApp

from supervisor import Info, SupervisorError
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.api.openapi import TAGS, ApiSchemas, openapi_document
from supervisor.api.operation import operation
from supervisor.api.params import OperationCall, body_params
from supervisor.api.routes import OPERATIONS
from supervisor.daemon.reload import Reloader
from supervisor.http_server.gate import UnixGate
from supervisor.http_server.problems import REQUEST_STATUSES, STATUSES
from tests.support.asgi_exchange import ask

# What the design says there is.
PROMISED = """
GET /v1/health GET /v1/ready GET /v1/version GET /v1/stats GET /v1/tree GET /v1/search
GET /v1/openapi.json GET /metrics POST /v1/sessions GET /v1/sessions GET /v1/sessions/{id}
PATCH /v1/sessions/{id} DELETE /v1/sessions/{id} POST /v1/sessions/{id}/inputs
GET /v1/sessions/{id}/inputs PATCH /v1/sessions/{id}/inputs/{input}
DELETE /v1/sessions/{id}/inputs/{input} GET /v1/sessions/{id}/inputs/{input}
POST /v1/sessions/{id}/interrupt POST /v1/sessions/{id}/steer POST /v1/sessions/{id}/spawn
POST /v1/sessions/{id}/stop POST /v1/sessions/{id}/resume POST /v1/sessions/{id}/fork
POST /v1/sessions/{id}/clear POST /v1/sessions/{id}/archive POST /v1/sessions/{id}/unarchive
POST /v1/sessions/{id}/repair GET /v1/sessions/{id}/events GET /v1/sessions/{id}/stream
GET /v1/sessions/{id}/transcript GET /v1/sessions/{id}/history GET /v1/sessions/{id}/children
GET /v1/sessions/{id}/why GET /v1/stream GET /v1/permissions POST /v1/permissions/{request}
POST /v1/backup POST /v1/cleanup POST /v1/import
"""


@pytest.fixture(scope="module")
def spec() -> Any:  # noqa: ANN401 - JSON
    # With the operation that only a daemon adds.
    reload = Reloader.__new__(Reloader).operation()
    return orjson.loads(openapi_document((*OPERATIONS, reload), version="1.2.3"))


def operations(spec: Any) -> list[tuple[str, str, Any]]:  # noqa: ANN401 - JSON
    return [
        (method.upper(), path, described)
        for path, item in spec["paths"].items()
        for method, described in item.items()
    ]


def test_the_document_is_valid_openapi(spec: Any) -> None:  # noqa: ANN401
    assert [str(error) for error in OpenAPIV31SpecValidator(spec).iter_errors()] == []


def test_the_document_has_every_route(spec: Any) -> None:  # noqa: ANN401
    words = PROMISED.split()

    promised = set(zip(words[::2], words[1::2], strict=True))
    assert promised <= {(method, path) for method, path, _ in operations(spec)}


def test_every_part_of_the_document_has_a_description(spec: Any) -> None:  # noqa: ANN401
    names = [described["operationId"] for _, _, described in operations(spec)]
    assert len(set(names)) == len(names)
    for _, path, described in operations(spec):
        assert described["summary"], path
        for parameter in described["parameters"]:
            assert parameter["description"]
        for response in described["responses"].values():
            assert response["description"]
        if "requestBody" in described:
            schema = described["requestBody"]["content"]["application/json"]["schema"]
            assert schema["additionalProperties"] is False
            assert all(one["description"] for one in schema["properties"].values())
    for name, schema in spec["components"]["schemas"].items():
        assert schema["description"], name


def test_every_operation_has_a_tag_that_is_described(spec: Any) -> None:  # noqa: ANN401
    described = {one["name"] for one in spec["tags"] if one["description"]}
    modules = {one.handle.__module__.rpartition(".")[2] for one in OPERATIONS}

    assert {tag for _, _, one in operations(spec) for tag in one["tags"]} <= described
    assert modules <= TAGS.keys()


def test_every_field_of_every_schema_has_a_description(spec: Any) -> None:  # noqa: ANN401
    missing = [
        f"{name}.{field}"
        for name, schema in spec["components"]["schemas"].items()
        for field, described in schema["properties"].items()
        if not described["description"]
    ]

    assert missing == [], "add them to api/descriptions.py"


def test_every_body_and_answer_has_an_example_of_its_schema(spec: Any) -> None:  # noqa: ANN401
    contents = [
        (f"{method} {path}", content)
        for method, path, described in operations(spec)
        for part in [described.get("requestBody", {}), *described["responses"].values()]
        for content in part.get("content", {}).values()
    ]

    for where, content in contents:
        assert content["example"] is not None, where
        schema = {**content["schema"], "components": spec["components"]}
        errors = [
            error.message for error in Draft202012Validator(schema).iter_errors(content["example"])
        ]
        assert errors == [], where


def test_the_document_lists_every_error_code(spec: Any) -> None:  # noqa: ANN401
    codes = spec["components"]["schemas"]["ProblemDetails"]["properties"]["code"]["enum"]

    assert set(codes) == {*REQUEST_STATUSES, *(kind.code for kind in STATUSES)}


def test_every_operation_lists_its_refusals(spec: Any) -> None:  # noqa: ANN401
    for _, path, described in operations(spec):
        assert {"401", "403", "422", "500"} <= described["responses"].keys(), path
        if "requestBody" in described:
            assert {"400", "408", "413", "415"} <= described["responses"].keys(), path
        if "{" in path:
            assert "404" in described["responses"], path


def test_a_path_is_made_of_plain_words(spec: Any) -> None:  # noqa: ANN401
    for path in spec["paths"]:
        assert re.fullmatch(r"(/([a-z0-9_.]+|{[a-z]+}))+", path)


async def test_the_document_is_served(app: ASGIApp) -> None:
    answer = await ask(app, "GET", "/v1/openapi.json")

    assert answer.status == 200
    assert answer.json["openapi"].startswith("3.1")


async def test_extra_operations_are_served_and_documented(sup: Any) -> None:  # noqa: ANN401
    @operation("POST", "/v1/reload", body_params(path=str))
    async def reload(call: OperationCall) -> None:
        """Read the settings again."""

    gate = UnixGate(own_uid=None)
    app = make_app(sup, gate=gate, drain_state=DrainState(), extra_operations=[reload])

    answer = await ask(app, "GET", "/v1/openapi.json")
    assert answer.json["paths"]["/v1/reload"]["post"]["summary"] == "Read the settings again."
    assert (await ask(app, "POST", "/v1/reload")).status == 422


def test_two_classes_with_one_name_raise() -> None:
    other = type("Info", (SupervisorError,), {})
    schemas = ApiSchemas()
    schemas.of(Info)
    schemas._kinds["Info"] = other

    with pytest.raises(TypeError, match="two classes"):
        schemas.of(Info)


def test_the_document_is_deterministic() -> None:
    assert openapi_document(OPERATIONS, version="1") == openapi_document(OPERATIONS, version="1")
