"""Examples of bodies and answers for the OpenAPI document, made from their schemas.

A test checks each example against its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# Values by the name of the field, or by class and name.
_VALUES: Final[Mapping[str, Any]] = {
    "agent": "echo",
    "text": "say hello",
    "name": "greeter",
    "title": "say hello",
    "id": "s_4f9k2m7q1x8z",
    "session_id": "s_4f9k2m7q1x8z",
    "root": "s_4f9k2m7q1x8z",
    "turn_id": "turn_8w3n5c0v6b2d",
    "input_id": "in_2j7h4g9s1k6p",
    "Input.id": "in_2j7h4g9s1k6p",
    "InputState.id": "in_2j7h4g9s1k6p",
    "PermissionRequest.id": "req_5t1r8y3u0i7o",
    "PermissionRule.id": "rule_9a4s6d2f8g1h",
    "Match.kind": "session",
    "created_at": 1764000000.0,
    "updated_at": 1764000000.0,
    "last_active_at": 1764000000.0,
    "accepted_at": 1764000000.0,
    "asked_at": 1764000000.0,
    "at": 1764000000.0,
    "since": 1764000000.0,
    "version": "1.0.0",
    "VersionReport.name": "understudy",
    "api": "v1",
    "tool": "bash",
    "question": "Run `make test`?",
    "code": "session_not_found",
    "detail": "no session has this id",
    "hint": "list the sessions",
    "type": "urn:understudy:problem:session_not_found",
    "ProblemDetails.title": "Session not found",
    "ProblemDetails.status": 404,
    "key": "echo:mail:anna",
    "path": "/home/anna/session.jsonl",
    "BackupReport.name": "backup.db",
    "snippet": "say hello",
}

# Other answers than JSON.
_TEXTS: Final[Mapping[str, str]] = {
    "text/event-stream": (
        'id: 1\nevent: session_created\ndata: {"session_id":"s_4f9k2m7q1x8z","seq":1,'
        '"at":1764000000.0,"turn_id":null,"kind":"session_created","body":{}}\n\n'
    ),
    "text/markdown": "# say hello\n",
    "text/html": "<!doctype html><title>say hello</title>",
    "application/jsonl": '{"kind":"session_created","seq":1}\n',
    "text/plain": "understudy_sessions 1\n",
}


def example_text(media_type: str) -> str:
    """Return an example of an answer that is not JSON."""
    return _TEXTS.get(media_type, "...")


def example_of(schema: Mapping[str, Any], by_name: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Return an example of a schema whose classes are in `by_name`."""
    return _Examples(by_name).of(schema, ())


class _Examples:
    """Makes one example; `owners` are the classes around a field."""

    def __init__(self, by_name: Mapping[str, Any]) -> None:
        self._by_name = by_name

    def of(self, schema: Mapping[str, Any], owners: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._of_properties(self._by_name[name], (*owners, name))
        if "default" in schema or "enum" in schema:
            return schema.get("default", schema.get("enum", [None])[0])
        if "anyOf" in schema:
            nullable = {"type": "null"} in schema["anyOf"]
            return None if nullable else self.of(schema["anyOf"][0], owners)
        if schema.get("type") == "array":
            items = schema["items"]
            is_recursive = items.get("$ref", "").rpartition("/")[2] in owners
            return [] if is_recursive else [self.of(items, owners)]
        return self._of_properties(schema, owners) if "properties" in schema else _of_scalar(schema)

    def _of_properties(self, schema: Mapping[str, Any], owners: tuple[str, ...]) -> dict[str, Any]:
        owner = owners[-1] if owners else ""
        return {
            name: self._of_field(owner, name, field, owners)
            for name, field in schema["properties"].items()
            if owner or name in schema.get("required", ())
        }

    def _of_field(
        self, owner: str, name: str, schema: Mapping[str, Any], owners: tuple[str, ...]
    ) -> Any:  # noqa: ANN401 - JSON
        if f"{owner}.{name}" in _VALUES:
            return _VALUES[f"{owner}.{name}"]
        if "enum" not in schema and name in _VALUES and "string" in _types(schema):
            return _VALUES[name]
        if name in _VALUES and "number" in _types(schema) and "null" not in _types(schema):
            return _VALUES[name]
        return self.of(schema, owners)


def _types(schema: Mapping[str, Any]) -> set[str]:
    return {one.get("type", "") for one in schema.get("anyOf", (schema,)) if "enum" not in one}


def _of_scalar(schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    smallest = max(1, schema.get("minimum", 1))
    values = {"integer": smallest, "number": float(smallest), "boolean": False, "object": {}}
    return values.get(schema.get("type", ""), "text" if schema.get("type") == "string" else {})
