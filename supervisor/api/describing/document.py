"""The OpenAPI document: made of the operations, so that it says what is done and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import NoneType
from typing import Any, Final

import orjson

from supervisor.api.wire.problems import MEDIA_TYPE, REQUEST_STATUSES, STATUSES, ProblemDetails

from .operations import Later, Operation
from .schemas import Schema, Schemas
from .words import word_for

_IN_PATH: Final = re.compile(r"{(\w+)}")
_ID: Final = {"type": "string", "pattern": "^[a-z0-9_]{3,64}$"}

# What every request may be answered with, by the gate and by us.
_ALWAYS: Final = ("unauthorized", "forbidden_host", "headers_too_large", "internal_error")
_WITH_BODY: Final = ("bad_json", "too_slow", "too_large", "not_json")

_HEADERS: Final[Mapping[str, str]] = {
    "Idempotency-Key": "The same as `idempotency_key` in the body.",
    "Last-Event-ID": "The last `id:` that was seen; it counts more than `after`.",
}


def document(operations: Iterable[Operation], *, version: str) -> bytes:
    """An OpenAPI 3.1 document as JSON."""
    schemas = Schemas()
    paths: dict[str, Schema] = {}
    for operation in operations:
        described = _Described(operation, schemas).whole()
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    schemas.of(ProblemDetails)
    schemas.named["ProblemDetails"]["properties"]["code"]["enum"] = sorted(
        {*REQUEST_STATUSES, *(kind.code for kind in STATUSES)}
    )
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Understudy",
                "version": version,
                "summary": "Agent sessions, supervised.",
                "description": _ABOUT,
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "servers": [{"url": "/", "description": "Where this document came from."}],
            "security": [{}, {"token": []}],
            "paths": paths,
            "components": {
                "schemas": dict(sorted(schemas.named.items())),
                "securitySchemes": {
                    "token": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "For TCP; on the unix socket the system says who asks.",
                    }
                },
            },
        }
    )


_ABOUT: Final = (
    "Sessions of agents: made, given input while they are busy, steered, interrupted, watched. "
    "Bodies are the arguments of the embedding API by name; what is not known is refused."
)


class _Described:
    """One operation, being described."""

    def __init__(self, operation: Operation, schemas: Schemas) -> None:
        self._operation = operation
        self._schemas = schemas

    def whole(self) -> Schema:
        operation = self._operation
        made: Schema = {
            "operationId": operation.name,
            "summary": operation.summary,
            "parameters": self._parameters(),
            "responses": self._responses(),
        }
        if operation.description:
            made["description"] = operation.description
        if operation.has_body:
            schema = self._schemas.of_form(operation.form)
            made["requestBody"] = {
                "required": "required" in schema,
                "content": {"application/json": {"schema": schema}},
            }
        return made

    def _parameters(self) -> list[Schema]:
        operation = self._operation
        found = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": word_for(name),
                "schema": _ID,
            }
            for name in _IN_PATH.findall(operation.path)
        ]
        if not operation.has_body:
            found += [self._in_query(field) for field in operation.form.fields]
        if "idempotency_key" in operation.form.names():
            found.append(_header("Idempotency-Key", {"type": "string", "minLength": 1}))
        if operation.streams:
            found.append(_header("Last-Event-ID", {"type": "integer", "minimum": 0}))
        return found

    def _in_query(self, field: Any) -> Schema:  # noqa: ANN401 - a Field
        schema = self._schemas.of_field(field)
        about = schema.pop("description")
        # In a query there is no null: what is not meant is left out.
        kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
        if len(kinds) == 1:
            schema = {**{k: v for k, v in schema.items() if k != "anyOf"}, **kinds[0]}
        return {
            "name": field.name,
            "in": "query",
            "required": field.is_needed,
            "description": about,
            "schema": schema,
        }

    def _responses(self) -> dict[str, Schema]:
        operation = self._operation
        responses = {str(operation.status): self._success()}
        if operation.answers_later:
            responses[str(Later(None).status)] = self._success()
        if operation.streams:
            responses["204"] = {"description": "Nothing can follow."}
        for status, codes in sorted(self._refusals().items()):
            responses[str(status)] = {
                "description": f"{HTTPStatus(status).phrase}: {', '.join(sorted(codes))}.",
                "content": {MEDIA_TYPE: {"schema": self._schemas.of(ProblemDetails)}},
            }
        return responses

    def _success(self) -> Schema:
        operation = self._operation
        content: dict[str, Schema] = {}
        if operation.answer is not NoneType:
            content["application/json"] = {"schema": self._schemas.of(operation.answer)}
        for media_type in operation.also_answers:
            content.setdefault(media_type.partition(";")[0], {"schema": {}})
        phrase = HTTPStatus(operation.status).phrase
        return {"description": phrase, **({"content": content} if content else {})}

    def _refusals(self) -> dict[int, set[str]]:
        operation = self._operation
        codes = {code: REQUEST_STATUSES[code] for code in _ALWAYS}
        if operation.has_body:
            codes |= {code: REQUEST_STATUSES[code] for code in _WITH_BODY}
        if "{" in operation.path or operation.path.endswith("/metrics"):
            codes["no_such_route"] = REQUEST_STATUSES["no_such_route"]
        codes["config_error"] = HTTPStatus.UNPROCESSABLE_ENTITY
        if operation.path == "/v1/ready":
            codes["not_ready"] = REQUEST_STATUSES["not_ready"]
        codes |= {kind.code: STATUSES[kind] for kind in operation.raises}
        found: dict[int, set[str]] = {}
        for code, status in codes.items():
            found.setdefault(int(status), set()).add(code)
        return found


def _header(name: str, schema: Schema) -> Schema:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": _HEADERS[name],
        "schema": schema,
    }
