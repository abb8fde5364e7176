"""What an agent says about one tool call, and by which word our rights know it.

Agents name tools badly: the protocol has a title for people ("Run `ls`"), a kind out of ten, and a
name only lately. So a tool is called by its name if it has one; else by its title, which is narrow,
so that an answer for always is about this very thing and not about everything of its kind. But
where a session has a list of tools, what is on that list counts, and there kinds can stand too.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.reading import as_list, as_mapping, as_name, as_text

from .content import bounded

MAX_NAME_LETTERS: Final = 200
MAX_INPUT_BYTES: Final = 65536
MAX_PATHS: Final = 100
MAX_PATH_LETTERS: Final = 4096
_MAX_VALUES: Final = 1000
_MAX_DEPTH: Final = 8
_DIGEST_LETTERS: Final = 12
_WITHOUT_NAME: Final = "tool"

# An input whose name ends in one of these words is a path, whatever stands in it.
_PATH_WORDS: Final = frozenset(
    {
        *("path", "paths", "file", "files", "filename", "filenames"),
        *("folder", "folders", "directory", "directories", "dir", "cwd"),
    }
)
# What we call the things that agents have us do; answers for always go by these names.
FILE, TERMINAL = "file:", "terminal:"
OURS: Final = (FILE, TERMINAL)
_SHELLS: Final = frozenset(
    f"{folder}{name}"
    for folder in ("", "/bin/", "/usr/bin/")
    for name in ("sh", "bash", "dash", "zsh")
)
_SHELL_WORDS: Final = 3
# An address of something that is no file.
_ADDRESS: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@attrs.frozen
class ToolFacts:
    """What is known of a tool call; None stands for what was not said.

    `paths` are all that it might touch, None if there are too many to tell. `commands` are the
    texts in it that may be command lines.
    """

    name: str | None = None
    title: str | None = None
    kind: str | None = None
    input: Mapping[str, Any] | None = None
    paths: tuple[str, ...] | None = ()
    commands: frozenset[str] = frozenset()

    @property
    def shown_name(self) -> str:
        """What people see it called."""
        return self.name or short(self.title) or self.kind or _WITHOUT_NAME

    def tool(self, rights: Permissions) -> str:
        """The word by which the rights, and answers for always, know it."""
        words = [word for word in (self.name, self.kind, short(self.title)) if word is not None]
        if rights.tools is None or not words:
            return self.shown_name
        # If none is on the list it makes no difference which is refused.
        return next((word for word in words if word in rights.tools), words[0])

    def joined(self, later: ToolFacts) -> ToolFacts:
        """Both together: what was said later counts, but no path is forgotten."""
        unknown = self.paths is None or later.paths is None
        paths = () if unknown else tuple(dict.fromkeys((*self.paths, *later.paths)))  # type: ignore[misc]
        return ToolFacts(
            name=later.name or self.name,
            title=later.title or self.title,
            kind=later.kind or self.kind,
            input=self.input if later.input is None else later.input,
            paths=None if unknown or len(paths) > MAX_PATHS else paths,
            commands=later.commands or self.commands,
        )


def facts_of(call: Mapping[str, Any]) -> ToolFacts:
    """What the fields of a tool call, or of an update of one, say."""
    given = call.get("rawInput")
    title = as_text(call.get("title"))
    return ToolFacts(
        name=_not_ours(_name_of(call)),
        title=_not_ours(title) if title is not None and title.strip() else None,
        kind=as_name(call.get("kind")),
        input=_input_of(given),
        paths=_paths_of(call),
        commands=frozenset(_commands(given, title)) - {""},
    )


def _not_ours(word: str | None) -> str | None:
    """What an agent calls something is never what we call what it has us do."""
    return f"agent's {word}" if word is not None and word.lstrip().startswith(OURS) else word


def short(title: str | None) -> str | None:
    """A title as a name; two that are not the same never become the same."""
    if title is None or len(title) <= MAX_NAME_LETTERS:
        return title
    digest = hashlib.sha256(title.encode(errors="replace")).hexdigest()[:_DIGEST_LETTERS]
    return f"{title[: MAX_NAME_LETTERS - _DIGEST_LETTERS - 5]}... #{digest}"


def _name_of(call: Mapping[str, Any]) -> str | None:
    name = as_name(call.get("name"), max_letters=MAX_NAME_LETTERS)
    if name is not None:
        return name
    meta = as_mapping(call.get("_meta"))
    # Some put it there under their own word.
    for place in (meta, *(as_mapping(value) for value in list(meta.values())[:MAX_PATHS])):
        name = as_name(place.get("toolName"), max_letters=MAX_NAME_LETTERS)
        if name is not None:
            return name
    return None


def _input_of(given: object) -> Mapping[str, Any] | None:
    if given is None:
        return None
    made: Any = bounded(given, MAX_INPUT_BYTES)
    return made if isinstance(made, dict) else {"value": made}


# Paths ------------------------------------------------------------------------------------


def _paths_of(call: Mapping[str, Any]) -> tuple[str, ...] | None:
    places = [as_mapping(place).get("path") for place in as_list(call.get("locations"))]
    diffs = [as_mapping(item) for item in as_list(call.get("content"))]
    places += [diff.get("path") for diff in diffs if diff.get("type") == "diff"]
    found = {path for path in places if isinstance(path, str)}
    texts = _texts_in(call.get("rawInput"))
    if texts is None:
        return None
    found |= {text for word, text in texts if _is_path(word, text)}
    if len(found) > MAX_PATHS or any(len(path) > MAX_PATH_LETTERS for path in found):
        return None
    return tuple(sorted(found))


def _is_path(word: str, text: str) -> bool:
    """Whether that input may be a path; what might lead out of a folder is always taken for one."""
    if _ADDRESS.match(text):
        return False
    if text.startswith(("/", "~", "file:")) or ".." in text.split("/"):
        return True
    words = re.findall("[A-Z]?[a-z]+", word)
    return bool(text) and bool(words) and words[-1].lower() in _PATH_WORDS


def _texts_in(value: object) -> list[tuple[str, str]] | None:
    """The texts in a tool's input, with the names that they stand under; None if it has no end."""
    waiting: list[tuple[str, object, int]] = [("", value, 0)]
    found: list[tuple[str, str]] = []
    for _ in range(_MAX_VALUES):
        if not waiting:
            return found
        word, item, depth = waiting.pop()
        if isinstance(item, str):
            found.append((word, item))
        elif isinstance(item, dict | list) and (depth >= _MAX_DEPTH or len(item) > _MAX_VALUES):
            return None
        elif isinstance(item, dict):
            waiting += [(str(name), inner, depth + 1) for name, inner in item.items()]
        elif isinstance(item, list):
            waiting += [(word, inner, depth + 1) for inner in item]
    return None if waiting else found


# Commands ---------------------------------------------------------------------------------


def _commands(given: object, title: str | None) -> Iterator[str]:
    """What may be the command line that the call is about."""
    fields = as_mapping(given)
    for name in ("command", "cmd", "script"):
        value = fields.get(name)
        words = [word for word in as_list(value) if isinstance(word, str)]
        if isinstance(value, str) or words:
            yield (value if isinstance(value, str) else shlex.join(words)).strip()
            yield (line_for_a_shell(words) or "").strip()
            return  # one question is about one command
    yield (title or "").strip("`").strip()


def line_for_a_shell(words: Sequence[str]) -> str | None:
    """The line that a shell is given to run, if that is what the words are: `bash -c LINE`.

    Only by its usual name, and with nothing between that would change what the line means.
    """
    is_one = len(words) == _SHELL_WORDS and words[0] in _SHELLS and words[1] in ("-c", "-lc")
    return words[2] if is_one else None
