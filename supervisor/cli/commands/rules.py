"""`understudy rules`: list and remove the permission rules of a session."""

from __future__ import annotations

import shlex
from functools import partial

import click

from supervisor.cli.async_runner import run_reading, run_requests
from supervisor.cli.failures import IdNotFound
from supervisor.cli.options import TEXT, json_option
from supervisor.cli.output import Screen
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import Cell
from supervisor.core.errors import short_repr


class _RulesGroup(click.Group):
    """The commands of rules; the name of a session in their place is pointed to `ls`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command as click does; fail with the command that is meant for another word."""
        word = args[0]
        if word not in self.commands and not word.startswith("-"):
            raise click.UsageError(
                f"{short_repr(word)} is neither ls nor rm. `understudy rules ls"
                f" {shlex.quote(word)}` lists the rules of a session.",
                ctx,
            )
        return super().resolve_command(ctx, args)


@click.group(cls=_RulesGroup, invoke_without_command=True, subcommand_metavar="[ls|rm]")
@json_option
@click.pass_context
def rules(ctx: click.Context, *, as_json: bool) -> None:  # noqa: ARG001 - of its commands
    """List or remove the permission rules of a session: its answers `always` and `never`."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError("Write `rules ls ID` or `rules rm ID RULE`.")


@rules.command("ls", short_help="List the permission rules of a session.")
@click.argument("session", metavar="ID")
@json_option
def list_rules(*, session: str, as_json: bool) -> int:
    """List the permission rules of a session."""
    screen = Screen(as_json=as_json)
    return run_reading(screen, None, partial(_list, screen, session))


async def _list(screen: Screen, session: str) -> None:
    async with open_target(screen, access="read") as sup:
        found = await (await find_session(sup, session)).rules()
    if screen.as_json:
        screen.data({"items": found, "next": None})
        return
    if not found:
        screen.note("No rules.")
        return
    rows = [(Cell(one.tool, "bold"), one.decision, one.id) for one in found]
    screen.table(("TOOL", "DECISION", "RULE"), rows, shrinkable=[0])


@rules.command("rm", short_help="Remove a permission rule.")
@click.argument("session", metavar="ID")
@click.argument("rule", metavar="RULE", type=TEXT)
@json_option
def remove_rule(*, session: str, rule: str, as_json: bool) -> int:
    """Remove a permission rule, so that its tool is asked for again.

    RULE is the name of the tool, or the id of the rule.
    """
    screen = Screen(as_json=as_json)
    return run_requests(screen, partial(_remove, screen, session, rule))


async def _remove(screen: Screen, session: str, rule: str) -> None:
    async with open_target(screen) as sup:
        owner = await find_session(sup, session)
        stored = await owner.rules()
        # A session has one rule for each tool; an id wins over a tool that is called so.
        named = [one for one in stored if one.id == rule] or [
            one for one in stored if one.tool == rule
        ]
        if not named:
            raise IdNotFound(
                f"session {session} has no rule {short_repr(rule)}",
                hint=f"`understudy rules ls {shlex.quote(session)}` lists them",
            )
        found = named[0]
        await owner.remove_rule(found.id)
    if screen.as_json:
        screen.data({"rule_id": found.id, "tool": found.tool, "removed": True})
    else:
        screen.line(Cell(found.tool, "bold"), f"  {found.decision} removed")
