"""The command line."""

from __future__ import annotations

import pytest

from supervisor.core.errors import ConfigError
from supervisor.drivers.scripted import Flags, parse
from supervisor.drivers.scripted.flags import FLAGS


def test_an_empty_command_line_has_no_flags() -> None:
    assert parse([]) == Flags()


def test_every_flag_has_its_field() -> None:
    assert [flag.field for flag in FLAGS] == list(Flags._fields)


def test_phases_may_be_several_and_come_more_than_once() -> None:
    flags = parse(["--die-at", "new,load", "--die-at", "prompt", "--hang-at", "cancel"])

    assert flags.die_at == {"session/new", "session/load", "session/prompt"}
    assert flags.hang_at == {"session/cancel"}


def test_every_other_value_is_read() -> None:
    words = "--delay 1.5 --protocol 2 --auth login --steering injected --state /state --echo"
    flags = parse(words.split())

    assert (flags.delay, flags.protocol, flags.auth) == (1.5, 2, "login")
    assert (flags.steering, flags.state, flags.echo) == ("injected", "/state", True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--sing", "unknown flag '--sing'"),
        ("say", "unknown flag 'say'"),
        ("--auth", "--auth has no value"),
        ("--die-at dinner", "'dinner' is not a valid value"),
        ("--offers maybe", "'maybe' is not a valid value"),
        ("--steering maybe", "'maybe' is not an outcome"),
        ("--delay soon", "--delay 'soon' is not a number"),
        ("--protocol 1.5", "--protocol '1.5' is not a whole number"),
    ],
)
def test_an_invalid_command_line_is_refused_with_a_hint(words: str, said: str) -> None:
    with pytest.raises(ConfigError, match="hint") as caught:
        parse(words.split())

    assert said in str(caught.value)
