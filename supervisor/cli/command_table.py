"""All commands: name, module and summary.

A new command needs a row here, a function in `commands/` and an example in `examples.py`.

Rule 1: plain data and no imports, because this is all that `understudy --help` loads.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing `typing` alone takes longer than this module
if TYPE_CHECKING:
    from typing import Final, TextIO

# Families of commands: the family's name; of each command the name, location and summary.
FAMILIES: Final = (
    (
        "Begin",
        (
            ("demo", "demo.demo:demo", "Show the main features in about ten seconds."),
            ("run", "commands.run:run", "Send one text to an agent and print its answer."),
            ("chat", "commands.chat:chat", "Chat with an agent, without a daemon."),
        ),
    ),
    (
        "Look",
        (
            ("ps", "commands.ps:ps", "List sessions."),
            ("tree", "commands.ps:tree", "Show the tree of sessions and their badges."),
            ("top", "commands.top:top", "Watch all sessions live."),
            ("attach", "commands.attach:attach", "Sit down at a session."),
            ("show", "commands.show:show", "Show the details of a session."),
            ("log", "commands.log:log", "Print what happened in a session."),
            ("watch", "commands.log:watch", "Print a session as it goes on."),
            ("why", "commands.show:why", "Explain what a session waits for."),
            ("search", "commands.search:search", "Search the messages of all sessions."),
            ("inbox", "commands.inbox:inbox", "List pending permission requests."),
            ("usage", "commands.usage:usage", "Show turns, tokens, cost and budgets."),
            ("wait", "commands.wait:wait", "Wait for turns, for attention or for the end."),
        ),
    ),
    (
        "Steer",
        (
            ("new", "commands.new:new", "Create a session."),
            ("send", "commands.send:send", "Send an input to a session."),
            ("steer", "commands.send:steer", "Steer the running turn."),
            (
                "interrupt",
                "commands.interrupt:interrupt",
                "Interrupt a tool call, a turn or a tree.",
            ),
            ("spawn", "commands.new:spawn", "Create a child of a session."),
            ("inputs", "commands.send:inputs", "List or change the queued inputs of a session."),
            ("answer", "commands.inbox:answer", "Answer a permission request or a question."),
            ("rules", "commands.rules:rules", "List or remove permission rules."),
            ("set", "commands.change:set_", "Change name, title, tags, limits and budgets."),
            ("stop", "commands.stop:stop", "Stop sessions."),
            ("resume", "commands.stop:resume", "Start stopped sessions again."),
            ("fork", "commands.stop:fork", "Create a session with the same history."),
            ("clear", "commands.stop:clear", "Start a new chapter in a session."),
            ("rename", "commands.stop:rename", "Give a session another name."),
            ("archive", "commands.stop:archive", "Make stopped sessions read-only."),
            ("rm", "commands.stop:rm", "Delete sessions permanently."),
        ),
    ),
    (
        "Keep",
        (
            ("export", "commands.transfer:export", "Write sessions as text, or as a database."),
            ("query", "commands.search:query", "Run a SELECT on the store."),
            ("import", "commands.transfer:import_", "Create a session from a file."),
            ("replay", "commands.maintain:replay", "Show a session as it was at a record."),
            ("repair", "commands.maintain:repair", "Check and repair a session's records."),
            ("backup", "commands.maintain:backup", "Copy the store to a file."),
            ("restore", "commands.maintain:restore", "Replace the store with a backup."),
            ("cleanup", "commands.maintain:cleanup", "Delete old stopped sessions."),
        ),
    ),
    (
        "Daemon and setup",
        (
            ("serve", "commands.serve:serve", "Run the daemon."),
            ("status", "commands.status:status", "Show the daemon, and whether it is well."),
            ("logs", "commands.logs:logs", "Print the log of the detached daemon."),
            ("down", "commands.down:down", "Stop the daemon."),
            ("acp", "commands.acp:acp", "Serve an editor (Agent Client Protocol)."),
            ("mcp", "commands.mcp:mcp", "Serve tools to an assistant (Model Context Protocol)."),
            ("service", "commands.systemd_unit:service", "Run the daemon as a systemd service."),
            ("hosts", "commands.hosts:hosts", "List the hosts whose daemons can be used."),
            ("reload", "commands.serve:reload", "Reload the daemon's configuration."),
            (
                "agents",
                "commands.agent_list:agents",
                "List built-in, configured and preset agents.",
            ),
            ("config", "commands.config:config", "Show each setting and its origin."),
            (
                "doctor",
                "doctor.doctor:doctor",
                "Check the installation, the configuration and the store.",
            ),
            ("completion", "commands.completion:completion", "Print shell completion code."),
            ("version", "commands.completion:version", "Print the version."),
        ),
    ),
)

COMMANDS: Final = {
    name: (place, summary) for _, commands in FAMILIES for name, place, summary in commands
}

_TITLE: Final = "understudy: agent sessions, supervised"
_USAGE: Final = "Usage: understudy COMMAND [OPTIONS]"
_FOOTER: Final = (
    "`understudy COMMAND --help` shows details and examples. Every command takes --json.",
    "A session is named by its id, the beginning or end of its id, its name or its key.",
    "New here? Start with `understudy demo`.",
)
_NAME_COLUMN_WIDTH: Final = 14
_MIN_WIDTH: Final = 40
_MAX_WIDTH: Final = 100


def print_overview(to: TextIO) -> int:
    """Print the list of all commands."""
    try:
        print(overview_text(_width(to)), file=to, flush=True)
    except BrokenPipeError:
        # The reader has closed the pipe; without this the interpreter complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())
    return 0


def overview_text(width: int) -> str:
    """Return the list of all commands, for a terminal of that width."""
    lines = [_TITLE, "", _USAGE, ""]
    for family, commands in FAMILIES:
        lines.append(family)
        for name, _, summary in commands:
            first, *rest = wrap_words(summary, width - _NAME_COLUMN_WIDTH)
            lines.append(f"  {name:<{_NAME_COLUMN_WIDTH - 2}}{first}")
            lines += [" " * _NAME_COLUMN_WIDTH + more for more in rest]
        lines.append("")
    for paragraph in _FOOTER:
        lines += wrap_words(paragraph, width)
    return "\n".join(lines)


def wrap_words(text: str, width: int) -> list[str]:
    """Return the words of a text in lines of at most that width; a longer word stays whole."""
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
    return min(max(columns, _MIN_WIDTH), _MAX_WIDTH)
