"""Checks of arguments; each raises a typed error whose hint names a valid value."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.info import Badge
from supervisor.core.limits import Limits
from supervisor.core.permissions import RIGHTS, Permissions
from supervisor.core.scopes import Scope, ToolCall, TurnScope
from supervisor.core.session_values import Phase
from supervisor.core.validation import (
    MAX_INTEGER,
    check_choice,
    check_filter,
    check_name,
    check_optional_text,
    check_permission_names,
    check_seconds,
    encoded_size,
)

if TYPE_CHECKING:
    from .shapes import Role

MAX_PERMISSIONS_BYTES = 65536

TEXT_FILTERS: Final = ("agent", "tag", "workspace", "channel", "peer", "parent", "root", "text")

_TIME_FILTERS: Final = ("created_after", "created_before", "updated_after", "updated_before")


def check_role(role: Role) -> Literal["user", "agent"]:
    """Return the role as stored: `assistant` becomes `agent`.

    Raise `ConfigError` for other words.
    """
    from .shapes import Role  # noqa: PLC0415 - commands that list do without it

    return "user" if check_choice("role", role, Role) == "user" else "agent"


def check_permissions(permissions: Permissions) -> Permissions:
    """Return the permissions.

    Raise `ConfigError` if a name has a control character, or all are too large for a row.
    """
    if not isinstance(permissions, Permissions):
        raise ConfigError(
            f"permissions is {short_repr(permissions)}", hint="give supervisor.Permissions(...)"
        )
    check_permission_names(permissions)
    names = [name for right in RIGHTS for name in getattr(permissions, right) or ()]
    size = sum(encoded_size("permissions", name) for name in names)
    if size > MAX_PERMISSIONS_BYTES:
        raise ConfigError(
            f"the names in permissions have {size} bytes of {MAX_PERMISSIONS_BYTES} allowed",
            hint="they are written with every step of the session; use fewer, or None for all",
        )
    return permissions


def check_path(name: str, value: object) -> str:
    """Return the path of a file as text; raise `ConfigError` if it is not a path."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"{name} is {short_repr(value)}", hint="give the path of a file, as text")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ConfigError(
            f"{name} cannot be encoded as a path", hint="give text without lone surrogates"
        ) from None
    return text


def check_list_filters(given: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if a filter of a list has an invalid value."""
    for name in TEXT_FILTERS:
        check_filter(name, given[name])
    for name in _TIME_FILTERS:
        if given[name] is not None:
            check_seconds(name, given[name])
    archived = given["archived"]
    if archived is not None and not isinstance(archived, bool):
        raise ConfigError(f"archived is {short_repr(archived)}", hint="give True, False or None")
    if given["phase"] is not None:
        check_choice("phase", given["phase"], Literal[tuple(Phase)])
    if given["badge"] is not None:
        check_choice("badge", given["badge"], Badge)


def absolute_workspace(workspace: str | None) -> str | None:
    """Return a workspace filter in the form in which sessions store their workspace."""
    return os.path.abspath(workspace) if workspace else workspace  # noqa: PTH100 - not resolved


def decode_cursor(cursor: str | None) -> int:
    """Return the number in a cursor, 0 without one; raise `ConfigError` if it is malformed."""
    check_optional_text("cursor", cursor)
    if cursor is None:
        return 0
    try:
        number = int(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, TypeError):
        number = -1
    if not 0 <= number <= MAX_INTEGER:
        raise ConfigError(
            f"{short_repr(cursor)} is not a cursor",
            hint="give the `next` of a page, or None for the first",
        )
    return number


def check_workspace(workspace: object) -> str:
    """Return the workspace as a normalised absolute path.

    Raise `ConfigError` if it is not a path.
    """
    given = os.fspath(workspace) if isinstance(workspace, os.PathLike) else workspace
    path = check_name("workspace", given)
    return os.path.abspath(path)  # noqa: PTH100 - normalised, not resolved: it may not exist yet


def check_options(whose: str, options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if an option is unknown; `whose` names the object in the error."""
    from .shapes import Options  # noqa: PLC0415 - commands that list do without it

    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise ConfigError(
            f"{whose} has no {', '.join(sorted(unknown))}",
            hint=f"it has: {', '.join(sorted(Options.__annotations__))}",
        )


def check_limits(limits: Limits) -> Limits:
    """Return the limits; raise `ConfigError` for any other type."""
    if not isinstance(limits, Limits):
        raise ConfigError(f"limits is {short_repr(limits)}", hint="give supervisor.Limits(...)")
    return limits


def change_limits(limits: Limits, changes: Mapping[str, Any]) -> Limits:
    """Return the limits with some of them changed.

    Raise `ConfigError` for an unknown or invalid one.
    """
    unknown = changes.keys() - {field.name for field in attrs.fields(Limits)}
    if unknown:
        names = ", ".join(field.name for field in attrs.fields(Limits))
        raise ConfigError(
            f"limits has no {short_repr(min(map(str, unknown)))}", hint=f"it has: {names}"
        )
    return attrs.evolve(limits, **changes)


def check_scope(scope: Scope) -> str:
    """Return the name of an interrupt scope; raise `ConfigError` if it is not a `Scope`."""
    match scope:
        case TurnScope(str()):
            return "turn"
        case ToolCall(str()):
            return "tool_call"
        case "turn" | "session" | "tree":
            return scope
    raise ConfigError(
        f"scope is {short_repr(scope)}",
        hint='give "turn", "session", "tree", TurnScope(id) or ToolCall(id)',
    )


def encode_cursor(number: int | None) -> str | None:
    """Return the cursor for a number; None for None, which means that there is no next page."""
    return None if number is None else base64.urlsafe_b64encode(str(number).encode()).decode()
