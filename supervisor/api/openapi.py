"""The OpenAPI document, generated from the operations, their annotations and `DESCRIPTIONS`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

import attrs
import orjson

from supervisor.decode import (
    Partial,
    alternatives,
    field_kinds,
    is_collection,
    is_mapping,
    is_str_enum,
    plain_kind,
)

from .encode import encode
from .operation import ID_PATTERN, PATH_PATTERNS, DeferredResponse, Operation
from .params import Param, Params
from .problems import MEDIA_TYPE, REQUEST_STATUSES, STATUSES, ProblemDetails

_DESCRIPTIONS: Final[Mapping[str, str]] = {
    # Identity.
    "id": "Id of the session.",
    "input": "Id of the input: the `input_id` of its receipt.",
    "request": "Id of the permission request.",
    "rule": "Id of the permission rule.",
    "agent": "Name of the agent; for an import, of the agent that continues the session.",
    "key": "Your name for the session: `agent:channel:peer[:thread]`, or an object of those parts.",
    "name": "Name of the session, for people; in a path, of a backup.",
    "title": "Title; made from the first text if not given.",
    "tags": "Tags to find the session by.",
    "custom": "Your own data, text by name, stored with the session.",
    "workspace": "Folder that the agent works in, as an absolute path.",
    "role": "Role of a child for its parent; for a message, its author: `user` or `agent`.",
    # Limits and behaviour of a session.
    "limits": "Limits on the descendants, and budgets of the session with its descendants.",
    "permissions": "Rights: sets of exact names, and a mode that answers permission requests.",
    "restart": "Restart policy for a crashed agent.",
    "ladder": "Seconds that each step of an interrupt may take before the next step.",
    "queue_cap": "Maximum number of queued inputs.",
    "max_text_bytes": "Maximum size of a text, in bytes.",
    "max_turn_bytes": "Maximum output of a turn, in bytes.",
    "steer_fallback": "Treatment of steering if the agent does not support it.",
    "permission_timeout_seconds": "Seconds after which an unanswered request is rejected once.",
    "suspend_after_seconds": "Seconds after which an idle session is suspended.",
    "quiet_after_seconds": "Seconds without progress after which a `quiet` record is written.",
    "stalled_after_seconds": "Seconds without progress after which the session counts as stalled.",
    "tool_stalled_after_seconds": "The same as `stalled_after_seconds`, while a tool call runs.",
    "on_stall": "Action on a stalled session.",
    "turn_deadline_seconds": "Maximum duration of a turn, in seconds.",
    "answers_for_children": "True: the agent may answer permission requests of its descendants.",
    "lifetime": "`with_parent`: the child stops with its parent; `detached`: it does not.",
    "on_end": "`tell`: notify the parent of the child's end; `wake`: also start a turn for it.",
    # Inputs and requests.
    "text": "Text for the agent; in a list, a part of the name, the title or the key.",
    "attachments": "JSON data that is sent with the text.",
    "when_busy": "Treatment of the input while a turn runs.",
    "if_stopped": "Treatment of the input if the session is stopped.",
    "queued": "Treatment of the queued inputs.",
    "ttl_seconds": "Seconds after which an input that has not started, or a child, expires.",
    "idempotency_key": "A repeated request with the same key runs once and has the same answer.",
    "position": "Position in the queue, from 0.",
    "scope": "Target of the interrupt.",
    "turn_id": "Id of the turn; if it has ended, nothing is interrupted.",
    "call_id": "Id of the tool call, with the scope `tool_call`.",
    "reason": "Reason, for the record.",
    "replace_with": "Text that runs next, before all queued inputs.",
    "when": "Stop `now`, or `after_turn`: when the running turn has ended.",
    "at_turn": "Id of the last turn to copy; without it, the last turn that has ended.",
    "decision": "Decision: one of the options of the request.",
    "seq": "Number of the last record that the person has seen.",
    # Reading.
    "after": "Number after which to start.",
    "follow": "True: keep the stream open after a stop, in case the session is resumed.",
    "limit": "Maximum number of items.",
    "cursor": "The `next` of the previous page.",
    "wait": "Maximum number of seconds to wait for the result.",
    "at": "Number of a record.",
    "q": "Words that a message must contain, all of them.",
    "session": "Only messages of this session.",
    "root": "Only the tree of this session; in a list, only sessions with this root.",
    "parent": "Only children of this session.",
    "phase": "Only sessions in this phase.",
    "badge": "Only sessions with this badge.",
    "tag": "Only sessions with this tag.",
    "channel": "Only sessions with this channel in their key.",
    "peer": "Only sessions with this peer in their key.",
    "archived": "Only archived sessions, or only others.",
    "created_after": "Only sessions created after this time, in seconds since 1970.",
    "created_before": "Only sessions created before this time.",
    "updated_after": "Only sessions changed after this time.",
    "updated_before": "Only sessions changed before this time.",
    # Maintenance.
    "path": "File on the server: for an import its absolute path, for a backup a plain name.",
    "format": "Format of the file or the text.",
    "redact": "True: mask text that looks like a secret.",
    "dry_run": "True: report only, and change nothing.",
    "force": "True: repair even if records cannot be verified.",
    "older_than_seconds": "Delete trees without a change for this number of seconds.",
    "keep_last": "Number of newest trees to keep.",
    "max_bytes": "Total size to keep, in bytes.",
}


def description_of(name: str) -> str:
    """Return the description of an argument; a test checks that each argument has one."""
    return _DESCRIPTIONS[name]


Schema = dict[str, Any]

_LARGEST: Final = 2**63 - 1

_SCALARS: Final[Mapping[object, Schema]] = {
    Any: {},
    object: {},
    str: {"type": "string"},
    int: {"type": "integer", "minimum": -_LARGEST - 1, "maximum": _LARGEST},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}


class Schemas:
    """JSON schemas of annotations. A class has one schema, referred to by its name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Schema] = {}
        self._kinds: dict[str, object] = {}

    def of(self, kind: Any) -> Schema:  # noqa: ANN401 - any annotation
        """Return the schema of an annotation."""
        kind = plain_kind(kind)
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        arguments = get_args(kind)
        if len(alternatives(kind)) > 1:
            return {"anyOf": [self.of(one) for one in arguments]}
        if get_origin(kind) is Literal or is_str_enum(kind):
            return {"type": "string", "enum": [str(word) for word in arguments or kind]}
        if is_collection(kind):
            unique = {"uniqueItems": True} if get_origin(kind) is frozenset else {}
            return {"type": "array", "items": self.of(arguments[0]), **unique}
        if is_mapping(kind):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        return self._of_class(kind)

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
            schema = _with_constraints(schema, field.constraint.schema)
        if not field.is_required and field.default is not None:
            schema = {**schema, "default": _json_default(field.default)}
        return {**schema, "description": description_of(field.name)}

    def _of_class(self, kind: Any) -> Schema:  # noqa: ANN401 - an attrs class, or a Partial of one
        is_partial = get_origin(kind) is Partial
        whole = get_args(kind)[0] if is_partial else kind
        name = _schema_name(whole, "Some" if is_partial else "")
        if self._kinds.setdefault(name, kind) != kind:
            raise TypeError(f"two classes are called {name}")
        if name not in self.by_name:
            self.by_name[name] = {}  # ends the recursion of a class that contains itself
            made = get_origin(whole) or whole
            required = sorted(
                field.name for field in attrs.fields(made) if field.default is attrs.NOTHING
            )
            self.by_name[name] = {
                "type": "object",
                "description": (inspect.getdoc(made) or "").replace("\n", " "),
                "properties": {field: self.of(one) for field, one in field_kinds(whole).items()},
                "additionalProperties": False,
                **({"required": required} if required and not is_partial else {}),
            }
        return {"$ref": f"#/components/schemas/{name}"}


def _schema_name(kind: Any, prefix: str) -> str:  # noqa: ANN401 - an attrs class
    """Return a name such as `Info`, or `PageOfInfo` for a generic class."""
    own = (get_origin(kind) or kind).__name__
    return "Of".join([prefix + own, *(one.__name__ for one in get_args(kind))])


def _with_constraints(schema: Schema, more: Mapping[str, Any]) -> Schema:
    """Return the schema with the constraints added; for a union, to its first alternative."""
    if "anyOf" not in schema:
        return {**schema, **more}
    first, *others = schema["anyOf"]
    return {"anyOf": [{**first, **more}, *others]}


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
    schemas = Schemas()
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


_DESCRIPTION: Final = (
    "Create agent sessions, send input while they are busy, steer, interrupt and watch them. "
    "Bodies have the arguments of the embedding API by name; unknown fields are refused."
)


class _OperationDocument:
    """Builder of the entry of one operation."""

    def __init__(self, operation: Operation, schemas: Schemas) -> None:
        self._operation = operation
        self._schemas = schemas

    def build(self) -> Schema:
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
            schema = self._schemas.of_params(operation.params)
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
            responses[str(status)] = {
                "description": f"{HTTPStatus(status).phrase}: {', '.join(sorted(codes))}.",
                "content": {MEDIA_TYPE: {"schema": self._schemas.of(ProblemDetails)}},
            }
        return responses

    def _success(self) -> Schema:
        operation = self._operation
        content: dict[str, Schema] = {}
        if operation.result_kind is not NoneType:
            content["application/json"] = {"schema": self._schemas.of(operation.result_kind)}
        for media_type in operation.other_media_types:
            content.setdefault(media_type.partition(";")[0], {"schema": {}})
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
