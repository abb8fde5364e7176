"""The CLI reference equals the code, and commands in pages are valid."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from supervisor.cli.command_table import COMMANDS
from supervisor.cli.common_options import STARTING_COMMANDS
from supervisor.cli.examples import EXAMPLES
from supervisor.cli.group import commands
from tests.cli.test_commands import command, options_of, subcommands
from tests.support.cli_runner import ROOT, Caller

PAGE = (ROOT / "docs/reference/cli.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = re.compile(r"^ *```(?:sh|console)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
OPTION = re.compile(r"^\| `(--[a-z-]+)[^`]*`(?:, `[a-z-]+`)* \| (.+) \|$", re.MULTILINE)


def sections() -> dict[str, str]:
    """Return the page's text by command."""
    found = re.split(r"^### `understudy (.+?)`\n", PAGE, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def titled() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        for one in subcommands(name):
            yield name if one is command(name) else f"{name} {one.name}", one


def plain(text: str) -> str:
    """Without what is only there for one of the two readers."""
    return re.sub(r"[`\\\s]+", " ", text).strip()


ALL = [pytest.param(title, one, id=title) for title, one in titled()]


def test_the_page_has_every_command_and_no_other() -> None:
    assert sorted(sections()) == sorted(title for title, _ in titled())


@pytest.mark.parametrize(("title", "one"), ALL)
def test_the_page_has_every_option_and_no_other(title: str, one: click.Command) -> None:
    listed = dict(OPTION.findall(sections()[title]))
    known = {
        max(option.opts, key=len): option.help or ""
        for option in one.params
        if isinstance(option, click.Option)
    }

    assert listed.keys() == options_of(one) - {"--json", "--host", "--no-start"}
    for name, said in listed.items():
        assert plain(said).startswith(plain(known[name])), name


@pytest.mark.parametrize(("title", "one"), ALL)
def test_the_page_shows_how_a_command_is_called(title: str, one: click.Command) -> None:
    (usage,) = re.findall(r"^```text\nunderstudy (.+)\n```", sections()[title], re.MULTILINE)
    context = click.Context(one, info_name=title)

    assert sorted(usage.split()) == sorted([*title.split(), *one.collect_usage_pieces(context)])


@pytest.mark.parametrize(("title", "one"), ALL)
def test_the_page_has_the_help_text_of_each_command(title: str, one: click.Command) -> None:
    assert one.help is not None

    assert plain(one.help) in plain(sections()[title])


def test_the_page_names_the_commands_that_start_the_daemon() -> None:
    (sentence,) = re.findall(r"^Daemon\n: (.+?)\bstart the daemon", PAGE, re.DOTALL | re.MULTILINE)

    assert set(re.findall(r"`([a-z]+)", sentence)) == STARTING_COMMANDS & COMMANDS.keys()


def test_descriptions_are_not_indented() -> None:
    """Markdown shows indented text as code."""
    text = re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)

    assert re.findall(r"^ {4}.*|^[^|\n]*\S {2,}\S.*", text, re.MULTILINE) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_the_examples_that_help_shows(name: str, call: Caller) -> None:
    shown = [line.strip() for line in SHELL.findall(sections()[name]) for line in line.splitlines()]

    assert shown == list(EXAMPLES.get(name, ()))
    assert all(f"  {line}\n" in call(name, "--help").out for line in shown)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_fit_a_terminal_of_80_columns(
    name: str, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, _, examples = call(name, "--help").out.partition("Examples:")

    assert max(map(len, examples.splitlines())) < 80


# What people are told to type ----------------------------------------------------------------


CALL = re.compile(r"(?:^|[$(|&;] *)understudy ([^|&;)#>\n]*)", re.MULTILINE)
INLINE = re.compile(r"`understudy ([a-z-][^`>]*)[^`]*`")


def typed() -> Iterator[tuple[str, str]]:
    """Every call of a command that a page shows, in a block for a shell or in a sentence."""
    for page in PAGES:
        text = page.read_text()
        shown = "\n".join(SHELL.findall(text)).replace("\\\n", " ")
        for call in (*CALL.findall(shown), *INLINE.findall(text)):
            if "..." not in call:
                yield page.name, call.strip()


@pytest.mark.parametrize(("page", "call"), sorted(set(typed())))
def test_commands_in_pages_are_valid(page: str, call: str) -> None:
    words = shlex.split(call)
    context: click.Context | None = None
    one: click.Command = commands
    while isinstance(one, click.Group) and words and not words[0].startswith("-"):
        context = click.Context(one, parent=context, info_name=one.name)
        found = one.get_command(context, words[0])
        assert found is not None, f"{page}: there is no {words[0]}"
        one, words = found, words[1:]

    # A sentence may only mention a command.
    if words and words[0] not in ("--help", "-h", "--version"):
        one.make_context(one.name, words, parent=context)  # raises what is wrong with them


def test_pages_contain_commands() -> None:
    assert len(set(typed())) > 60
