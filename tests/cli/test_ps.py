"""`understudy ps`: what needs a person comes first, and a failure looks like one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import supervisor
from supervisor import Attention, Info, LastOutcome
from supervisor.cli.output import Screen
from supervisor.cli.session_cells import (
    ATTENTION_WORDS,
    all_state_words,
    format_cost,
    format_tokens,
    shorten_ids,
    state_cell,
    state_words,
)
from supervisor.cli.session_table import print_sessions
from tests.support.cli_runner import Caller, on_a_terminal


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """One session that failed and was stopped, one that is done, one that a person has seen."""
    path = tmp_path / "mixed.db"

    async def fill() -> None:
        async with supervisor.open(path) as sup:
            broken = await sup.create("scripted", name="broken", workspace=tmp_path.as_posix())
            await broken.prompt("fail no compiler")
            await broken.stop()
            seen = await sup.create("scripted", name="seen")
            await seen.prompt("say done")
            await seen.seen((await seen.info()).last_seq)
            await (await sup.create("echo", name="done")).prompt("hello")

    trio.run(fill)
    return path


def names(call: Caller, *arguments: object) -> list[str]:
    return [line.split()[0] for line in call("ps", *arguments).out.splitlines()[1:]]


def test_a_failed_session_is_first_although_it_is_stopped(call: Caller, mixed: Path) -> None:
    shown = call("ps", "--state", mixed).out.splitlines()

    assert names(call, "--state", mixed) == ["broken", "done", "seen"]
    assert "turn failed" in shown[1]
    assert "no compiler" in shown[1]
    assert "finished" in shown[2]
    assert "suspended" in shown[3]


def test_ps_filters_by_workspace(call: Caller, mixed: Path) -> None:
    assert names(call, "--workspace", mixed.parent, "--state", mixed) == ["broken"]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("turn-failed", ["broken"]),
        ("turn failed", ["broken"]),
        ("failed", ["broken"]),
        ("finished", ["done"]),
        ("Suspended", ["done", "seen"]),  # the badge of one whose STATE is finished
        ("lost", []),
    ],
)
def test_ps_filters_by_what_the_state_shows(
    word: str, found: list[str], call: Caller, mixed: Path
) -> None:
    assert names(call, "--badge", word, "--state", mixed) == found


def test_every_word_of_the_state_can_be_typed(mixed: Path) -> None:
    """Those of sessions of each need."""
    info = Info(**_fields(mixed))
    kinds = ATTENTION_WORDS.keys()
    shown = {
        word
        for kind in kinds
        for word in state_words(
            attrs.evolve(info, attention=(Attention(kind, None, 1.0, 99),), badge="idle")
        )
    }

    assert shown <= set(all_state_words())


def test_ps_watch_without_a_terminal_prints_once(call: Caller, mixed: Path) -> None:
    done = call("ps", "--watch", "--state", mixed)

    assert (done.code, len(done.out.splitlines())) == (0, 4)
    assert "printed once" in done.err


def test_show_and_tree_name_the_failure(call: Caller, mixed: Path) -> None:
    shown = call("show", "broken", "--state", mixed).out

    assert "last turn  failed: RuntimeError: no compiler" in shown
    assert "attention  failed turn: RuntimeError: no compiler" in shown
    assert "turn failed" in call("tree", "broken", "--state", mixed).out


def test_a_seen_failure_still_shows_its_outcome(mixed: Path) -> None:
    info = Info(**{**_fields(mixed), "attention": (), "seen_seq": 99})

    assert state_cell(info).text == "stopped, failed"


def _fields(path: Path) -> dict[str, Any]:
    async def read() -> Info:
        async with supervisor.open(path) as sup:
            (info,) = (await sup.list(text="broken")).items
            return info

    return attrs.asdict(trio.run(read), recurse=False)


def test_a_short_id_has_at_least_four_random_characters() -> None:
    ids = ["s_abcdefghijkl", "s_abcdezzzzzzz", "s_zyxwvutsrqpo", "s_1", "s_abcdefghijkl_2"]

    assert shorten_ids(ids) == {
        "s_abcdefghijkl": "s_abcdefghijkl",
        "s_abcdefghijkl_2": "s_abcdefghijkl_",
        "s_abcdezzzzzzz": "s_abcdez",
        "s_zyxwvutsrqpo": "s_zyxw",
        "s_1": "s_1",
    }


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (950, "950"), (12_345, "12.3k"), (1_200_000, "1.2M")]
)
def test_tokens_are_shown_in_five_characters(count: int, text: str) -> None:
    assert format_tokens(count) == text


def test_a_small_cost_is_not_shown_as_nothing() -> None:
    assert [format_cost(cost) for cost in (0.0, 0.00012, 0.5, 12.0)] == [
        "",
        "0.00012",
        "0.50",
        "12.00",
    ]


def printed(
    monkeypatch: pytest.MonkeyPatch, width: int, *found: Info, is_repainted: bool = False
) -> list[str]:
    out = io.StringIO()
    monkeypatch.setattr(Screen, "width", property(lambda _: width))
    print_sessions(Screen(out=out), found, is_repainted=is_repainted)
    return out.getvalue().splitlines()


def test_a_session_without_a_name_has_a_word_that_finds_it(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = _fields(mixed) | {"name": None, "title": "hi there", "attention": ()}
    fields |= {"last_outcome": None}

    _, line = printed(monkeypatch, 140, Info(**fields))

    assert line.split()[0] == fields["id"][:6]
    assert line.endswith("hi there")


def test_children_with_the_name_of_another_are_named_by_their_paths(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = _fields(mixed)
    root, away = fields["id"], "s_000000000000"
    sessions = [
        fields | {"name": "api"},
        fields | {"id": "s_111111111111", "name": "api", "parent": root, "root": root},
        fields | {"id": "s_222222222222", "name": "api", "parent": away, "root": away},
        fields | {"id": "s_333333333333", "name": "docs", "parent": away, "root": away},
    ]

    _, *lines = printed(monkeypatch, 140, *(Info(**one) for one in sessions))

    assert [line.split()[0] for line in lines] == ["api", "api/api", "s_2222", "docs"]


def test_children_that_a_filter_has_left_alone_are_named_by_their_paths(
    call: Caller, tmp_path: Path
) -> None:
    path = tmp_path / "family.db"

    async def fill() -> None:
        async with supervisor.open(path) as sup:
            for name in ("api", "site"):
                root = await sup.create("echo", name=name)
                await (await root.spawn("scripted", "say hi", name="tests")).wait()

    trio.run(fill)

    assert sorted(names(call, "--agent", "scripted", "--state", path)) == [
        "api/tests",
        "site/tests",
    ]


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({}, "no compiler"),
        ({"attention": ()}, "RuntimeError: no compiler"),
        ({"attention": (), "last_outcome": None}, "the first text"),
        ({"attention": (), "waiting_for": "turn_slot"}, "waits for a turn slot, all are taken"),
    ],
)
def test_about_is_what_is_most_useful_now(
    changes: dict[str, Any], about: str, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = _fields(mixed) | {"title": "the first text"} | changes

    assert printed(monkeypatch, 160, Info(**fields))[1].endswith(about)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_columns_of_a_repainted_list_keep_their_places(
    width: int, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = _fields(mixed)
    more = {"queued": 12, "usage": supervisor.Usage(12_345, 678, 0.42), "attention": ()}

    before = printed(monkeypatch, width, Info(**fields), is_repainted=True)
    after = printed(monkeypatch, width, Info(**fields | more), is_repainted=True)

    assert before[0].rstrip() == after[0].rstrip()


def test_a_narrow_repainted_list_keeps_what_is_useful_now(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heading = printed(monkeypatch, 60, Info(**_fields(mixed)), is_repainted=True)[0]

    assert heading.split() == ["NAME", "ID", "STATE", "ACTIVE", "ABOUT"]


def test_ps_watch_says_that_the_daemon_does_not_run(mixed: Path, home: Path) -> None:
    store = home / ".local" / "state" / "understudy" / "state.db"
    store.parent.mkdir(parents=True)
    store.write_bytes(mixed.read_bytes())

    with on_a_terminal("ps", "--watch", columns=100) as watching:
        watching.see("The daemon is not running")
        shown = watching.see("broken")
        watching.press_ctrl_c()

        assert watching.end() == 130
    # After the first repaint, which would hide it.
    assert shown.index("\x1b[J") < shown.index("The daemon is not running")


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_list_fits_the_terminal_with_name_id_and_state(
    width: int, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = _fields(mixed) | {
        "name": "a name of a session that is rather long",
        "last_outcome": LastOutcome("failed", "x", 1.0, "turn_1", 5),  # type: ignore[arg-type]
        "attention": (Attention("failed_turn", "no compiler " * 20, 1.0, 5),),
        "usage": supervisor.Usage(12_345, 678, 0.42),
    }
    out = io.StringIO()
    monkeypatch.setattr(Screen, "width", property(lambda _: width))

    print_sessions(Screen(out=out), [Info(**fields)])  # type: ignore[arg-type]

    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split()[:4] == ["NAME", "ID", "STATE", "ACTIVE"]
    assert "turn failed" in lines[1]
    assert ("TOKENS" in lines[0]) == (width >= 80)
