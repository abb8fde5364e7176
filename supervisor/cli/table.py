"""All commands: what each is for, in a few words, and where it is.

Rule 1: plain data, and nothing imported, for this is all that `understudy --help` needs.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as `typing` has it, which alone takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Final, TextIO

# A family of commands: its name, and of each command the name, where it is, and what it is for.
FAMILIES: Final = (
    (
        "Begin",
        (
            ("demo", "demo.command:demo", "Show all that it does, in a few seconds."),
            ("run", "talking.run:run", "Give an agent one text, and print what it says."),
            ("chat", "talking.chat:chat", "Talk with an agent; nothing else is needed."),
        ),
    ),
    (
        "Look",
        (
            ("ps", "looking.ps:ps", "List sessions, one a line."),
            ("tree", "looking.tree:tree", "Show who is below whom, and how they are."),
            ("top", "looking.top.command:top", "Watch all sessions, live."),
            ("show", "looking.show:show", "Show all that is known of a session."),
            ("log", "looking.log:log", "Print what happened in a session."),
            ("watch", "looking.watch:watch", "Print what happens in a session, as it happens."),
            ("why", "looking.why:why", "Say what a session waits for."),
            ("search", "looking.search:search", "Find what was said."),
            ("inbox", "looking.inbox:inbox", "List what agents ask you."),
        ),
    ),
    (
        "Steer",
        (
            ("new", "acting.new:new", "Make a session."),
            ("send", "acting.send:send", "Give a session an input."),
            ("steer", "acting.send:steer", "Guide the turn that runs."),
            ("interrupt", "acting.interrupt:interrupt", "Interrupt a tool call, a turn or a tree."),
            ("spawn", "acting.new:spawn", "Make a child of a session."),
            ("inputs", "acting.inputs:inputs", "List what waits in a session, or change it."),
            ("answer", "acting.answer:answer", "Answer what an agent asks."),
            ("stop", "acting.life:stop", "Stop a session."),
            ("resume", "acting.life:resume", "Start a stopped session again."),
            ("fork", "acting.life:fork", "Make a session with the same past."),
            ("clear", "acting.life:clear", "Begin a new chapter in a session."),
            ("archive", "acting.life:archive", "Make a stopped session read-only."),
            ("rm", "acting.life:rm", "Delete a session, with all that is in it."),
        ),
    ),
    (
        "Keep",
        (
            ("export", "keeping.export:export", "Write a session as a page, or as lines."),
            ("import", "keeping.import_:import_", "Make a session of a file."),
            ("replay", "keeping.replay:replay", "Show a session as it was at a record."),
            ("repair", "keeping.repair:repair", "See whether a session's records are whole."),
            ("backup", "keeping.backup:backup", "Copy the whole store into a file."),
            ("restore", "keeping.backup:restore", "Put a backup in the store's place."),
            ("cleanup", "keeping.cleanup:cleanup", "Delete what is over and old."),
        ),
    ),
    (
        "House",
        (
            ("serve", "household.serve:serve", "Run the daemon."),
            ("reload", "household.serve:reload", "Have the daemon read its configuration again."),
            ("agents", "household.agents:agents", "List agents: yours, built in, and to be had."),
            ("config", "household.config:config", "Show each setting, and where it comes from."),
            ("doctor", "household.doctor:doctor", "Look whether everything is in order here."),
            ("completion", "household.completion:completion", "Print completion for your shell."),
            ("version", "household.version:version", "Print the version."),
        ),
    ),
)

COMMANDS: Final = {
    name: (place, summary) for _, commands in FAMILIES for name, place, summary in commands
}

_TOP: Final = "understudy: agent sessions, supervised"
_USAGE: Final = "Usage: understudy COMMAND [OPTIONS]"
_BOTTOM: Final = (
    "`understudy COMMAND --help` says more of each, with examples. All of them take --json.",
    "A session goes by its id, the beginning or the end of that, its name or its key.",
    "New here? `understudy demo` shows what this is.",
)
_LEFT: Final = 14
_NARROWEST: Final = 40
_WIDEST: Final = 100


def overview(to: TextIO) -> int:
    """Print the list of all commands."""
    try:
        print(overview_text(_width(to)), file=to, flush=True)
    except BrokenPipeError:
        # Whoever read us has seen enough; without this the interpreter complains when it leaves.
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())
    return 0


def overview_text(width: int) -> str:
    """The list of all commands, for a terminal of that width."""
    lines = [_TOP, "", _USAGE, ""]
    for family, commands in FAMILIES:
        lines.append(family)
        for name, _, summary in commands:
            first, *rest = wrapped(summary, width - _LEFT)
            lines.append(f"  {name:<{_LEFT - 2}}{first}")
            lines += [" " * _LEFT + more for more in rest]
        lines.append("")
    for paragraph in _BOTTOM:
        lines += wrapped(paragraph, width)
    return "\n".join(lines)


def wrapped(text: str, width: int) -> list[str]:
    """The words of a text in lines of at most that width, as far as they fit."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _width(to: TextIO) -> int:
    try:
        columns = os.get_terminal_size(to.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return 80
    return min(max(columns, _NARROWEST), _WIDEST)
