"""`understudy completion`: for bash, zsh and fish."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from supervisor.cli.ground.options import json_option
from supervisor.cli.terminal.screen import Screen

_VARIABLE = "_UNDERSTUDY_COMPLETE"
_WHERE = {
    "bash": "~/.local/share/bash-completion/completions/understudy",
    "zsh": "a folder in your $fpath, as _understudy",
    "fish": "~/.config/fish/completions/understudy.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(*, shell: str, as_json: bool) -> None:
    """Print what makes your shell complete commands and options.

    Save what it prints: for bash as ~/.local/share/bash-completion/completions/understudy, for fish
    as ~/.config/fish/completions/understudy.fish, for zsh as _understudy in a folder of $fpath.
    """
    from supervisor.cli.group import commands  # noqa: PLC0415 - it knows us too

    screen = Screen(as_json=as_json)
    kind = get_completion_class(shell)
    assert kind is not None  # it is one of click's three
    complete = kind(commands, {}, "understudy", _VARIABLE)
    # Not `source()`, which starts a bash to look at its version.
    script = complete.source_template % complete.source_vars()
    if as_json:
        screen.data({"shell": shell, "script": script})
        return
    screen.write(script)
    if screen.is_terminal:
        screen.note(f"Save it as {_WHERE[shell]}.")
