"""The OpenAPI document, generated from the operations, their annotations and `descriptions`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import NoneType
from typing import Any, Final

import orjson

from supervisor.decode.json_schema import Schema, Schemas, with_constraints
from supervisor.http_server.problems import MEDIA_TYPE, REQUEST_STATUSES, STATUSES, ProblemDetails

from .descriptions import description_of, description_of_field
from .encode import encode
from .examples import example_of, example_text
from .operation import ID_PATTERN, PATH_PATTERNS, DeferredResponse, Operation
from .params import Param, Params


class ApiSchemas(Schemas):
    """The schemas of the classes of the API, and of the arguments of its operations."""

    def __init__(self) -> None:
        super().__init__(refer_to="#/components/schemas/", describe=description_of_field)

    def of_params(self, params: Params) -> Schema:
        """Return the schema of a body."""
        needed = [field.name for field in params.fields if field.is_required]
        return {
            "type": "object",
            "properties": {field.name: self.of_param(field) for field in params.fields},
            "additionalProperties": False,
            **({"required": needed} if needed else {}),
        }

    def of_param(self, field: Param) -> Schema:
        """Return the schema of one argument, with its default and its description."""
        schema = self.of(field.kind)
        if field.constraint is not None and field.constraint.schema:
            schema = with_constraints(schema, field.constraint.schema)
        if not field.is_required and field.default is not None:
            schema = {**schema, "default": _json_default(field.default)}
        return {**schema, "description": description_of(field.name)}


def _json_default(default: object) -> object:
    """Return a default as plain JSON data."""
    return orjson.loads(encode(default))


_PATH_PARAM: Final = re.compile(r"{(\w+)}")

# Paths of operations that a server may be without.
_OPTIONAL_PATHS: Final = ("/metrics", "/backup", "/backups")

# Codes that every operation may answer with.
_COMMON_CODES: Final = (
    "unauthorized",
    "forbidden_host",
    "headers_too_large",
    "out_of_descriptors",
    "internal_error",
)

_BODY_CODES: Final = ("bad_json", "too_slow", "too_large", "not_json")

_HEADERS: Final[Mapping[str, str]] = {
    "Idempotency-Key": "The same as `idempotency_key` in the body.",
    "Last-Event-ID": "The last `id:` that was received; wins over `after`.",
}


def openapi_document(operations: Iterable[Operation], *, version: str) -> bytes:
    """Return the OpenAPI 3.1 document as JSON."""
    schemas = ApiSchemas()
    paths: dict[str, Schema] = {}
    for operation in operations:
        described = _OperationDocument(operation, schemas).build()
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    schemas.of(ProblemDetails)
    schemas.by_name["ProblemDetails"]["properties"]["code"]["enum"] = sorted(
        {*REQUEST_STATUSES, *(kind.code for kind in STATUSES)}
    )
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Understudy",
                "version": version,
                "summary": "Agent sessions, supervised.",
                "description": _DESCRIPTION,
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "servers": [{"url": "/", "description": "The server of this document."}],
            "security": [{}, {"token": []}],
            "tags": [{"name": name, "description": about} for name, about in TAGS.values()],
            "paths": paths,
            "components": {
                "schemas": dict(sorted(schemas.by_name.items())),
                "securitySchemes": {
                    "token": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "Required on TCP, not on the unix socket.",
                    }
                },
            },
        }
    )


# The tag of the operations of a module of `routes`, and its description.
TAGS: Final[Mapping[str, tuple[str, str]]] = {
    "admin": ("Daemon", "Health, statistics, and work on the whole store."),
    "backups": ("Backups", "Copies of the store."),
    "sessions": ("Sessions", "Create, find, change and delete sessions."),
    "inputs": ("Inputs", "Send inputs, and follow them to their results."),
    "control": ("Control", "Interrupt, stop, resume, fork and archive sessions."),
    "read": ("History", "Records, transcripts and explanations."),
    "streams": ("Event streams", "Records as they are written."),
    "permission_requests": ("Permissions", "Requests that wait for a decision."),
}


def tag_of(operation: Operation) -> str:
    """Return the tag of an operation; those of the daemon itself have no module in `routes`."""
    module = operation.handle.__module__.rpartition(".")[2]
    return TAGS.get(module, TAGS["admin"])[0]


_DESCRIPTION: Final = (
    "Create agent sessions, send input while they are busy, steer, interrupt and watch them. "
    "Bodies have the arguments of the embedding API by name; unknown fields are refused."
)


class _OperationDocument:
    """Builder of the entry of one operation."""

    def __init__(self, operation: Operation, schemas: ApiSchemas) -> None:
        self._operation = operation
        self._schemas = schemas

    def build(self) -> Schema:
        operation = self._operation
        made: Schema = {
            "operationId": operation.name,
            "summary": operation.summary,
            "tags": [tag_of(operation)],
            "parameters": self._parameters(),
            "responses": self._responses(),
        }
        if operation.description:
            made["description"] = operation.description
        if operation.has_body:
            schema = self._schemas.of_params(operation.params)
            made["requestBody"] = {
                "required": "required" in schema,
                "content": {"application/json": self._with_example(schema)},
            }
        return made

    def _parameters(self) -> list[Schema]:
        operation = self._operation
        found = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": description_of(name),
                "schema": {
                    "type": "string",
                    "pattern": f"^{PATH_PATTERNS.get(name, ID_PATTERN)}$",
                },
            }
            for name in _PATH_PARAM.findall(operation.path)
        ]
        if not operation.has_body:
            found += [self._query_parameter(field) for field in operation.params.fields]
        if "idempotency_key" in operation.params.names():
            found.append(_header("Idempotency-Key", {"type": "string", "minLength": 1}))
        if operation.is_stream:
            found.append(_header("Last-Event-ID", {"type": "integer", "minimum": 0}))
        return found

    def _query_parameter(self, field: Any) -> Schema:  # noqa: ANN401 - a Param
        schema = self._schemas.of_param(field)
        about = schema.pop("description")
        # A query has no null: the parameter is left out instead.
        kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
        if len(kinds) == 1:
            schema = {**{k: v for k, v in schema.items() if k != "anyOf"}, **kinds[0]}
        return {
            "name": field.name,
            "in": "query",
            "required": field.is_required,
            "description": about,
            "schema": schema,
        }

    def _responses(self) -> dict[str, Schema]:
        operation = self._operation
        responses = {str(operation.status): self._success()}
        if operation.may_defer:
            responses[str(DeferredResponse(None).status)] = self._success()
        if operation.is_stream:
            responses["204"] = {"description": "Nothing can follow."}
        for status, codes in sorted(self._refusals().items()):
            content = self._with_example(self._schemas.of(ProblemDetails))
            code = min(codes)
            content["example"] |= {"status": status, "code": code}
            content["example"] |= {"type": f"urn:understudy:problem:{code}", "title": code}
            responses[str(status)] = {
                "description": f"{HTTPStatus(status).phrase}: {', '.join(sorted(codes))}.",
                "content": {MEDIA_TYPE: content},
            }
        return responses

    def _with_example(self, schema: Schema) -> Schema:
        return {"schema": schema, "example": example_of(schema, self._schemas.by_name)}

    def _success(self) -> Schema:
        operation = self._operation
        content: dict[str, Schema] = {}
        if operation.result_kind is not NoneType:
            content["application/json"] = self._with_example(
                self._schemas.of(operation.result_kind)
            )
        for media_type in operation.other_media_types:
            bare = media_type.partition(";")[0]
            events = [self._schemas.of(kind) for kind in operation.event_kinds]
            # The document cannot describe the events of a text, so their data is an extension.
            schema: Schema = {"type": "string", "x-event-data": {"anyOf": events}} if events else {}
            content.setdefault(bare, {"schema": schema, "example": example_text(bare)})
        phrase = HTTPStatus(operation.status).phrase
        return {"description": phrase, **({"content": content} if content else {})}

    def _refusals(self) -> dict[int, set[str]]:
        operation = self._operation
        codes = {code: REQUEST_STATUSES[code] for code in _COMMON_CODES}
        if operation.has_body:
            codes |= {code: REQUEST_STATUSES[code] for code in _BODY_CODES}
        if operation.unix_only:
            codes["unix_socket_only"] = REQUEST_STATUSES["unix_socket_only"]
        if "{" in operation.path or operation.path.endswith(_OPTIONAL_PATHS):
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
