"""Examples of calls, shown by `understudy COMMAND --help` and the CLI reference."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = {
    "run": (
        'understudy run --agent claude "Which files here are tests?"',
        "git diff | understudy run --agent claude -",
        'understudy run --agent codex --yes --timeout 10m "Make the tests pass"',
        'understudy run --daemon --agent claude "Read the docs"',
    ),
    "chat": (
        "understudy chat --agent claude",
        "understudy chat --agent claude --state notes.db",
    ),
    "ps": (
        "understudy ps",
        "understudy ps --all --agent claude",
        "understudy ps --badge waiting-for-you --json",
        "understudy ps --badge turn-failed",
        "understudy ps -q --tag nightly",
    ),
    "tree": ("understudy tree", "understudy tree builder"),
    "top": ("understudy top", "understudy top --every 2"),
    "show": ("understudy show builder", "understudy show _42 --transcript"),
    "attach": ("understudy attach builder",),
    "log": (
        "understudy log builder",
        "understudy log builder --last 20",
        "understudy log builder --kind tool_call --kind tool_ended",
        "understudy log builder --after 120 --json",
    ),
    "watch": (
        "understudy watch builder",
        "understudy watch builder --records",
        "understudy watch --json",
    ),
    "search": (
        "understudy search roses water",
        "understudy search roses --session builder --state notes.db",
    ),
    "new": (
        'understudy new claude --name builder -m "Make the tests pass"',
        "understudy new claude --workspace ~/project --turns 20 --wall 2h",
        "understudy new claude --mode approve_all --limit max_children=3",
        "understudy new claude --model opus --effort high --option mode=plan",
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
        "understudy interrupt builder --call call_4f9k2x81bz0c",
        'understudy interrupt builder --tree --replace-with "Sum up"',
    ),
    "agents": ("understudy agents", "understudy agents --json"),
    "spawn": ('understudy spawn builder claude "Read the docs" --name reader --ttl 30m',),
    "inputs": (
        "understudy inputs builder",
        'understudy inputs builder --edit in_4f9k "Say it in French"',
        "understudy inputs builder --move 2 1",
    ),
    "answer": (
        "understudy answer builder yes",
        "understudy answer req_4f9k always",
    ),
    "stop": (
        "understudy stop builder --after-turn",
        "understudy stop --tag nightly",
        "understudy ps -q --agent claude | understudy stop -",
    ),
    "resume": ("understudy resume builder", "understudy resume --tag nightly"),
    "archive": ("understudy archive builder", "understudy archive builder --undo"),
    "rm": ("understudy rm s_4f9k2x81bz0c", "understudy rm --tag nightly --yes"),
    "set": (
        'understudy set builder --title "The API" --tag nightly',
        "understudy set builder --turns 50 --cost 5 --limit tokens=none",
        "understudy set builder --model opus --option mode=plan --option brief=true",
    ),
    "rules": ("understudy rules ls builder", "understudy rules rm builder bash"),
    "usage": (
        "understudy usage",
        "understudy usage builder --by agent",
        "understudy usage --by day",
    ),
    "wait": (
        "understudy wait builder --timeout 10m",
        "understudy wait --any --for attention --new",
        "understudy wait reader writer --for stopped",
    ),
    "fork": (
        "understudy fork builder --at-turn turn_4f9k2x81bz0c",
        "understudy fork builder --name builder-too",
    ),
    "rename": ("understudy rename builder login",),
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
    "serve": (
        "understudy serve",
        "understudy serve --detach",
        "understudy serve --tcp 8765 --json",
    ),
    "acp": ("understudy acp --agent claude", "understudy acp --on-close detach"),
    "status": ("understudy status", "understudy status --host build"),
    "logs": ("understudy logs", "understudy logs -n 20 -f"),
    "down": ("understudy down", "understudy down --now"),
    "mcp": ("understudy mcp", "understudy mcp --host build"),
    "service": ("understudy service install", "understudy service status"),
    "hosts": (
        "understudy hosts add build anna@build.example",
        "understudy hosts add tunnel --tcp 8765 --token-file ~/build.token",
        "understudy ps --host build",
    ),
    "config": (
        "understudy config",
        "understudy config get daemon.socket",
        "understudy config check ./understudy.toml",
    ),
    "doctor": ("understudy doctor", "understudy doctor --agents"),
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
