"""Report of an agent on one tool call, and its name in permissions.

The protocol has a title for users ("Run `ls`"), one of ten kinds, and, in newer versions, a name.
So the name of a tool is its reported name, or else its title. A title is narrow, so that
allow_always covers this call and not every call of its kind. If the session's permissions list
tools, a name, kind or title on that list is used.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from supervisor.core.permissions import Permissions

from .content import as_list, as_mapping, as_name, as_text, bounded_data

MAX_NAME_LETTERS: Final = 200
MAX_INPUT_BYTES: Final = 65536
MAX_PATHS: Final = 100
MAX_PATH_LETTERS: Final = 4096
_MAX_VALUES: Final = 1000
_MAX_DEPTH: Final = 8
_DIGEST_LETTERS: Final = 12
_DEFAULT_NAME: Final = "tool"

# An input whose name ends in one of these words is a path, whatever its text.
_PATH_WORDS: Final = frozenset(
    {
        *("path", "paths", "file", "files", "filename", "filenames"),
        *("folder", "folders", "directory", "directories", "dir", "cwd"),
    }
)
# Prefixes of our names for file and terminal requests. Stored in permission rules: do not change.
FILE_PREFIX, TERMINAL_PREFIX = "file:", "terminal:"
RESERVED_PREFIXES: Final = (FILE_PREFIX, TERMINAL_PREFIX)
_SHELLS: Final = frozenset(
    f"{folder}{name}"
    for folder in ("", "/bin/", "/usr/bin/")
    for name in ("sh", "bash", "dash", "zsh")
)
_SHELL_ARGUMENT_COUNT: Final = 3
# A URL of something other than a file.
_URL: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@attrs.frozen
class ToolReport:
    """Reported fields of a tool call; None for a field that is not reported.

    `paths` are all paths that the call might use, None if there are too many. `commands` are the
    texts in it that may be command lines.
    """

    name: str | None = None
    title: str | None = None
    kind: str | None = None
    input: Mapping[str, Any] | None = None
    paths: tuple[str, ...] | None = ()
    commands: frozenset[str] = frozenset()

    @property
    def display_name(self) -> str:
        """The name shown to users."""
        return self.name or shorten_title(self.title) or self.kind or _DEFAULT_NAME

    def permission_name(self, permissions: Permissions) -> str:
        """Return the name used in permissions and permission rules."""
        names = [
            name for name in (self.name, self.kind, shorten_title(self.title)) if name is not None
        ]
        if permissions.tools is None or not names:
            return self.display_name
        # If none is listed the tool is refused, under any of its names.
        return next((name for name in names if name in permissions.tools), names[0])

    def merged(self, later: ToolReport) -> ToolReport:
        """Return both reports as one: later fields replace earlier ones, but all paths are kept."""
        unknown = self.paths is None or later.paths is None
        paths = () if unknown else tuple(dict.fromkeys((*self.paths, *later.paths)))  # type: ignore[misc]
        return ToolReport(
            name=later.name or self.name,
            title=later.title or self.title,
            kind=later.kind or self.kind,
            input=self.input if later.input is None else later.input,
            paths=None if unknown or len(paths) > MAX_PATHS else paths,
            commands=later.commands or self.commands,
        )


def parse_tool_report(call: Mapping[str, Any]) -> ToolReport:
    """Return the report in the fields of a tool call or of an update."""
    raw_input = call.get("rawInput")
    title = as_text(call.get("title"))
    return ToolReport(
        name=_escape_reserved(_tool_name(call)),
        title=_escape_reserved(title) if title is not None and title.strip() else None,
        kind=as_name(call.get("kind")),
        input=_tool_input(raw_input),
        paths=_tool_paths(call),
        commands=frozenset(_commands(raw_input, title)) - {""},
    )


def _escape_reserved(name: str | None) -> str | None:
    """Return the agent's name for a tool, changed if it begins with a reserved prefix."""
    return (
        f"agent's {name}"
        if name is not None and name.lstrip().startswith(RESERVED_PREFIXES)
        else name
    )


def shorten_title(title: str | None) -> str | None:
    """Return a title short enough for a name; a digest keeps different titles different."""
    if title is None or len(title) <= MAX_NAME_LETTERS:
        return title
    digest = hashlib.sha256(title.encode(errors="replace")).hexdigest()[:_DIGEST_LETTERS]
    return f"{title[: MAX_NAME_LETTERS - _DIGEST_LETTERS - 5]}... #{digest}"


def _tool_name(call: Mapping[str, Any]) -> str | None:
    name = as_name(call.get("name"), max_letters=MAX_NAME_LETTERS)
    if name is not None:
        return name
    meta = as_mapping(call.get("_meta"))
    # Some agents put it in `_meta`, or below a key of their own in it.
    for fields in (meta, *(as_mapping(value) for value in list(meta.values())[:MAX_PATHS])):
        name = as_name(fields.get("toolName"), max_letters=MAX_NAME_LETTERS)
        if name is not None:
            return name
    return None


def _tool_input(raw_input: object) -> Mapping[str, Any] | None:
    if raw_input is None:
        return None
    bounded: Any = bounded_data(raw_input, MAX_INPUT_BYTES)
    return bounded if isinstance(bounded, dict) else {"value": bounded}


# Paths ------------------------------------------------------------------------------------


def _tool_paths(call: Mapping[str, Any]) -> tuple[str, ...] | None:
    reported = [as_mapping(location).get("path") for location in as_list(call.get("locations"))]
    diffs = [as_mapping(item) for item in as_list(call.get("content"))]
    reported += [diff.get("path") for diff in diffs if diff.get("type") == "diff"]
    found = {path for path in reported if isinstance(path, str)}
    texts = _named_texts(call.get("rawInput"))
    if texts is None:
        return None
    found |= {text for name, text in texts if _is_path(name, text)}
    if len(found) > MAX_PATHS or any(len(path) > MAX_PATH_LETTERS for path in found):
        return None
    return tuple(sorted(found))


def _is_path(name: str, text: str) -> bool:
    """Return True if an input may be a path; text that could lead out of a folder always counts."""
    if _URL.match(text):
        return False
    if text.startswith(("/", "~", "file:")) or ".." in text.split("/"):
        return True
    words = re.findall("[A-Z]?[a-z]+", name)
    return bool(text) and bool(words) and words[-1].lower() in _PATH_WORDS


def _named_texts(value: object) -> list[tuple[str, str]] | None:
    """Return the texts in a tool's input with their field names; None if the input is too large."""
    waiting: list[tuple[str, object, int]] = [("", value, 0)]
    found: list[tuple[str, str]] = []
    for _ in range(_MAX_VALUES):
        if not waiting:
            return found
        name, item, depth = waiting.pop()
        if isinstance(item, str):
            found.append((name, item))
        elif isinstance(item, dict | list) and (depth >= _MAX_DEPTH or len(item) > _MAX_VALUES):
            return None
        elif isinstance(item, dict):
            waiting += [(str(key), inner, depth + 1) for key, inner in item.items()]
        elif isinstance(item, list):
            waiting += [(name, inner, depth + 1) for inner in item]
    return None if waiting else found


# Commands ---------------------------------------------------------------------------------


def _commands(raw_input: object, title: str | None) -> Iterator[str]:
    """Yield the texts that may be the command line of the call."""
    fields = as_mapping(raw_input)
    for name in ("command", "cmd", "script"):
        value = fields.get(name)
        words = [word for word in as_list(value) if isinstance(word, str)]
        if isinstance(value, str) or words:
            yield (value if isinstance(value, str) else shlex.join(words)).strip()
            yield (shell_line(words) or "").strip()
            return  # one question is about one command
    yield (title or "").strip("`").strip()


def shell_line(words: Sequence[str]) -> str | None:
    """Return LINE if the words are `bash -c LINE`, else None.

    Only known shells are accepted, and no further options, which could change the meaning of LINE.
    """
    is_shell_line = (
        len(words) == _SHELL_ARGUMENT_COUNT and words[0] in _SHELLS and words[1] in ("-c", "-lc")
    )
    return words[2] if is_shell_line else None
