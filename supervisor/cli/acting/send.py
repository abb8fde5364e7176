"""`understudy send` and `understudy steer`: an input, and guidance for the turn that runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from supervisor.cli.ground.failures import OK
from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import DURATION, json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.ground.texts import text_given
from supervisor.cli.terminal.screen import Screen

from .answers import show_receipt, show_result


@click.command()
@click.argument("session", metavar="ID")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--when-busy",
    default="queue",
    show_default=True,
    type=click.Choice(["queue", "steer", "interrupt", "reject"]),
    help="What to do while a turn runs.",
)
@click.option("--ttl", "ttl_seconds", metavar="TIME", type=DURATION, help="Expires after: 10m.")
@click.option("--key", "idempotency_key", metavar="KEY", help="Accepted once, however often sent.")
@click.option("--wait", is_flag=True, help="Wait for the end of its turn, and print the text.")
@json_option
def send(
    *,
    session: str,
    words: tuple[str, ...],
    wait: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click's options
) -> int:
    """Give a session an input; without TEXT, or with -, it is read from standard input."""
    screen = Screen(as_json=as_json)
    text = text_given(words)
    return run_async(screen, partial(_send, screen, session, text, options, wait=wait))


async def _send(
    screen: Screen, session: str, text: str, options: dict[str, Any], *, wait: bool
) -> int:
    async with open_target(screen) as sup:
        found = await find_session(sup, session)
        receipt = await found.send(text, **options)
        if not wait:
            show_receipt(screen, receipt)
            return OK
        return show_result(screen, await found.result(receipt.input_id))


@click.command()
@click.argument("session", metavar="ID")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@json_option
def steer(*, session: str, words: tuple[str, ...], as_json: bool) -> int:
    """Guide the turn that runs; it is an error if none does."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_steer, screen, session, text_given(words)))


async def _steer(screen: Screen, session: str, text: str) -> None:
    async with open_target(screen) as sup:
        show_receipt(screen, await (await find_session(sup, session)).steer(text))
