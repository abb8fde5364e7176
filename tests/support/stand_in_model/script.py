"""The script in a prompt, and the model's next answer.

A script is the lines of a prompt that are steps; other lines are ignored:

    say TEXT               answer TEXT; {result} in it is the result of the last tool call
    call TOOL {JSON}       call the tool whose name ends with TOOL; `SERVER.TOOL` where agents have
                           a tool of that name themselves

Agents add texts of their own to a prompt, so the script is that of the last text with steps. How
many results follow this text says where the script is.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import attrs

from .conversation import Conversation, Reply, Returned, Said, ToolCall

_STEP: Final = re.compile(r"say (?P<text>.+)|call (?P<tool>[\w.\-]+)(?: (?P<arguments>\{.*\}))?")
# The answer to a prompt without steps, and after the last step of a script.
NOTHING_TO_SAY: Final = "done"


@attrs.frozen
class Say:
    """A step that answers a text."""

    text: str


@attrs.frozen
class Call:
    """A step that calls a tool, which is named by the end of its name."""

    tool: str
    arguments: dict[str, Any]


@attrs.frozen
class Round:
    """The steps of one answer: texts, then a call unless it is the last answer."""

    texts: tuple[str, ...]
    call: Call | None


def parse(text: str) -> list[Say | Call]:
    """Return the steps in a text; a `call` whose arguments are no JSON object is no step."""
    steps: list[Say | Call] = []
    for line in text.splitlines():
        match = _STEP.fullmatch(line.strip())
        if match is None:
            continue
        if match["text"] is not None:
            steps.append(Say(match["text"]))
            continue
        try:
            arguments = json.loads(match["arguments"] or "{}")
        except ValueError:
            continue
        steps.append(Call(match["tool"], arguments))
    return steps


def rounds(steps: list[Say | Call]) -> list[Round]:
    """Return the answers that play the steps; the last one has no call."""
    found, texts = list[Round](), list[str]()
    for step in steps:
        match step:
            case Say(text):
                texts.append(text)
            case Call():
                found.append(Round(tuple(texts), step))
                texts = []
    return [*found, Round(tuple(texts), None)]


def answer(conversation: Conversation) -> Reply:
    """Return the model's next answer in this conversation."""
    steps, results = _position(conversation)
    answers = rounds(steps)
    current = answers[min(len(results), len(answers) - 1)]
    last = results[-1] if results else ""
    text = "\n".join(text.replace("{result}", last) for text in current.texts)
    if current.call is None:
        return Reply(text or NOTHING_TO_SAY)
    tool = conversation.find_tool(current.call.tool)
    if tool is None:
        offered = ", ".join(sorted(one.full_name for one in conversation.tools)) or "none"
        return Reply(f"no tool ends with {current.call.tool}; offered: {offered}")
    return Reply(text, ToolCall(tool, current.call.arguments))


def _position(conversation: Conversation) -> tuple[list[Say | Call], list[str]]:
    """Return the steps of the current script, and the results since its prompt."""
    steps, results = list[Say | Call](), list[str]()
    for item in conversation.items:
        match item:
            case Said(text):
                found = parse(text)
                if found:
                    steps, results = found, []
            case Returned(text):
                results.append(text)
    return steps, results
