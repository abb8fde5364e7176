"""The root of all commands: finds each in the table, runs it, and says how it ended."""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module
from itertools import takewhile
from typing import Any

import click
from click.shell_completion import CompletionItem

from supervisor.core.errors import SupervisorError

from .examples import examples_of
from .ground.early import Importing
from .ground.failures import OK, report, report_defect, report_interrupt, report_usage
from .table import COMMANDS, overview_text
from .terminal.screen import Screen


class _CtrlC(Exception):
    """`KeyboardInterrupt`, past click, which would write a line of its own."""


class Commands(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import it, if there is one."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        with Importing():
            found = getattr(import_module(f".{module}", __package__), name)
        assert isinstance(found, click.Command)
        found.epilog = examples_of(cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with a guess at what was meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            close = difflib.get_close_matches(name, COMMANDS, n=1)
            guess = f" Did you mean {close[0]}?" if close else ""
            ctx.fail(f"There is no command {name!r}.{guess}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        """As click does it, but a reader who leaves is no error, and Ctrl-C is ours to tell."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _forget_output()
            return OK
        except KeyboardInterrupt:
            raise _CtrlC from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click does it, but from the table: whoever presses Tab waits for no imports."""
        found = [
            CompletionItem(name, help=summary)
            for name, (_, summary) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found or super().shell_complete(ctx, incomplete)

    def get_help(self, ctx: click.Context) -> str:
        """The same list as without click."""
        return overview_text(ctx.terminal_width or 80)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="understudy", message="understudy %(version)s")
def commands() -> None:
    """Agent sessions, supervised."""


def run(arguments: list[str]) -> int:  # noqa: PLR0911 - one for each way to end
    """Run the command that the arguments name; gives the code to exit with."""
    screen = Screen(as_json="--json" in takewhile(lambda one: one != "--", arguments))
    try:
        code: Any = commands.main(args=arguments, prog_name="understudy", standalone_mode=False)
    except click.ClickException as error:
        return report_usage(error, screen, arguments)
    except SupervisorError as error:
        return report(error, screen)
    except (_CtrlC, KeyboardInterrupt, click.Abort):
        return report_interrupt(screen)
    except BrokenPipeError:
        _forget_output()
        return OK
    except OSError as error:
        return report(_system_error(error), screen)
    except Exception as error:  # noqa: BLE001 - whoever typed a command is owed no traceback
        return report_defect(error, screen)
    return code if isinstance(code, int) else OK


def _system_error(error: OSError) -> SupervisorError:
    where = f" ({error.filename})" if error.filename else ""
    what = error.strerror or str(error) or type(error).__name__
    return SupervisorError(f"the system says: {what}{where}", hint="see to that, and try again")


def _forget_output() -> None:
    """Whoever read our output has left; what is still in our buffers goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
