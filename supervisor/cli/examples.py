"""Examples of calls, shown by `understudy COMMAND --help` and the CLI reference."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = {
    "run": (
        'understudy run --agent claude "Which files here are tests?"',
        "git diff | understudy run --agent claude -",
        'understudy run --agent codex --yes --timeout 10m "Make the tests pass"',
    ),
    "chat": (
        "understudy chat --agent claude",
        "understudy chat --agent claude --state notes.db",
    ),
    "ps": (
        "understudy ps",
        "understudy ps --all --agent claude",
        "understudy ps --badge waiting-for-you --json",
        'understudy stop "$(understudy ps -q --text builder)"',
    ),
    "tree": ("understudy tree", "understudy tree builder"),
    "top": ("understudy top", "understudy top --every 0.5"),
    "show": ("understudy show builder", "understudy show _42 --transcript"),
    "log": (
        "understudy log builder --last 20",
        "understudy log builder --kind tool_call --kind tool_ended",
        "understudy log builder --after 120 --json",
    ),
    "watch": ("understudy watch builder", "understudy watch --json"),
    "search": (
        "understudy search roses water",
        "understudy search roses --session builder --state notes.db",
    ),
    "new": (
        "understudy new claude --name builder --workspace ~/project",
        "understudy new echo --key echo:mail:anna --tag post",
    ),
    "send": (
        'understudy send builder "Make the tests pass"',
        'understudy send builder "What did you do?" --wait',
        'understudy send builder "Stop that, read this" --when-busy interrupt',
    ),
    "steer": ('understudy steer builder "only those in tests/api"',),
    "interrupt": (
        'understudy interrupt builder --reason "lunch"',
        "understudy interrupt builder --call call_4f9k2x81bz0c_7",
        'understudy interrupt builder --tree --replace-with "Sum up"',
    ),
    "spawn": ('understudy spawn builder claude "Read the docs" --name reader --ttl 30m',),
    "inputs": (
        "understudy inputs builder",
        'understudy inputs builder --edit in_4f9k2x81bz0c_5 "Say it in French"',
        "understudy inputs builder --move in_4f9k2x81bz0c_5 0",
    ),
    "answer": ("understudy answer req_4f9k2x81bz0c_9 allow_once",),
    "stop": ("understudy stop builder --after-turn",),
    "fork": ("understudy fork builder --at-turn turn_4f9k2x81bz0c_3",),
    "export": (
        "understudy export builder --format html --output builder.html",
        "understudy export builder --format jsonl --redact > builder.jsonl",
        "understudy export --all --format sqlite --output sessions.db",
    ),
    "query": (
        'understudy query "SELECT id, agent, phase FROM sessions WHERE archived = 0"',
        'understudy query --csv --state notes.db "SELECT id, phase FROM sessions"',
    ),
    "import": (
        "understudy import builder.jsonl --agent claude",
        "understudy import old.jsonl --format picoclaw --state notes.db",
    ),
    "replay": ("understudy replay builder --at 40",),
    "repair": ("understudy repair builder", "understudy repair builder --write"),
    "backup": ("understudy backup /var/backups/understudy.db",),
    "restore": ("understudy restore /var/backups/understudy.db",),
    "cleanup": (
        "understudy cleanup --older-than 30d --dry-run",
        "understudy cleanup --keep-last 100 --max-bytes 2GiB",
    ),
    "serve": ("understudy serve", "understudy serve --tcp 8765 --json"),
    "config": (
        "understudy config",
        "understudy config get daemon.socket",
        "understudy config check ./understudy.toml",
    ),
    "doctor": ("understudy doctor", "understudy doctor --json"),
    "completion": (
        "understudy completion fish > ~/.config/fish/completions/understudy.fish",
        'eval "$(understudy completion bash)"',
    ),
}


def examples_of(name: str) -> str | None:
    """Return the examples for click's epilog, or None."""
    lines = EXAMPLES.get(name)
    # \b keeps click from rewrapping the lines.
    return (
        None if lines is None else "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
    )
