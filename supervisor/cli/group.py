"""The root command: finds a command in the table, runs it, and reports errors."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import click

from supervisor.core.errors import SupervisorError, short_repr

from .command_table import COMMANDS, overview_text
from .common_options import add_common_options
from .early_interrupt import ExitOnInterrupt
from .examples import examples_of
from .failures import OK, report, report_defect, report_interrupt, report_usage
from .output import Screen

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The shell sets this variable to ask click for completions.
COMPLETION_VARIABLE = "_UNDERSTUDY_COMPLETE"
# Characters of a wrong word; a longer text is no slip of the finger.
_MAX_COMPARED = 40


class _CtrlC(Exception):
    """`KeyboardInterrupt`, renamed so that click does not print a line for it."""


class CommandGroup(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the command names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return the command; return None if the table has no command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        with ExitOnInterrupt():
            found = getattr(import_module(f".{module}", __package__), name)
        assert isinstance(found, click.Command)
        found.epilog = examples_of(cmd_name)
        add_common_options(cmd_name, found)
        if COMPLETION_VARIABLE in os.environ:
            from .completions import add_completions  # noqa: PLC0415 - only for the shell

            add_completions(found)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command as click does, and suggest the closest name if none matches."""
        if args[0] == "help" and len(args) > 1:
            args = [*args[1:], "--help"]
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            args = [_command_meant(ctx, args[0]), *args[1:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        """Invoke as click does, but ignore closed pipes and pass Ctrl-C to `run`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_output()
            return OK
        except KeyboardInterrupt:
            raise _CtrlC from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete as click does, but command names from the table, without imports."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for the shell

        found = [
            CompletionItem(name, help=summary)
            for name, (_, summary) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found or super().shell_complete(ctx, incomplete)

    def get_help(self, ctx: click.Context) -> str:
        """Return the list of commands, as `print_overview` prints it."""
        return overview_text(ctx.terminal_width or 80)


def _command_meant(ctx: click.Context, word: str) -> str:
    """Return the command that a word of other programs means; fail with a hint for other words."""
    from .command_words import ALIASES, POINTERS  # noqa: PLC0415 - only for such a word

    if word in ALIASES:
        return ALIASES[word]
    if word in POINTERS:
        raise click.UsageError(f"Unknown command {word!r}: {POINTERS[word]}.", ctx)
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    close = get_close_matches(word[:_MAX_COMPARED], [*COMMANDS, *ALIASES, *POINTERS], n=1)
    guess = ""
    if close:
        meant = f"{close[0]}, which is {ALIASES[close[0]]}" if close[0] in ALIASES else close[0]
        pointer = f" {POINTERS[close[0]]}." if close[0] in POINTERS else ""
        guess = f" Did you mean {meant}?{pointer}"
    raise click.UsageError(f"Unknown command {short_repr(word)}.{guess}", ctx)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="understudy", message="understudy %(version)s")
def commands() -> None:
    """Agent sessions, supervised."""


def run(arguments: list[str]) -> int:  # noqa: PLR0911 - one return for each kind of end
    """Run the command that the arguments name and return its exit code."""
    if COMPLETION_VARIABLE in os.environ:
        from .bash_completion import register  # noqa: PLC0415 - only for the shell

        register()
    screen = Screen(as_json="--json" in takewhile(lambda argument: argument != "--", arguments))
    try:
        code: Any = commands.main(args=arguments, prog_name="understudy", standalone_mode=False)
    except click.ClickException as error:
        return report_usage(error, screen, arguments)
    except SupervisorError as error:
        return report(error, screen)
    except (_CtrlC, KeyboardInterrupt, click.Abort):
        return report_interrupt(screen)
    except BrokenPipeError:
        _discard_output()
        return OK
    except OSError as error:
        return report(_system_error(error), screen)
    except Exception as error:  # noqa: BLE001 - users get a report instead of a traceback
        return report_defect(error, screen)
    return code if isinstance(code, int) else OK


def _system_error(error: OSError) -> SupervisorError:
    where = f" ({error.filename})" if error.filename else ""
    what = error.strerror or str(error) or type(error).__name__
    return SupervisorError(f"{what}{where}", hint="correct the cause, and try again")


def _discard_output() -> None:
    """Redirect unflushed output to /dev/null after the reader has closed the pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
