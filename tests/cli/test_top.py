"""`understudy top`: keys and drawing."""

import io

import pytest
import trio
from rich.cells import cell_len
from rich.console import Console

import supervisor
from supervisor.cli.commands.top import perform_action
from supervisor.cli.commands.top_screen import Board, KeyAction, draw, split_keys

pytestmark = pytest.mark.usefixtures("names_of_old_stores")

# Who leaves does not wait for a turn that asks something.
BRIEF = supervisor.Settings(exit_seconds=0.0)


async def family(sup: supervisor.Supervisor) -> list[str]:
    parent = await sup.create("echo", name="parent")
    child = await parent.spawn("echo", "hello", name="child \x1b[2J")
    other = await sup.create("echo", name="other")
    await child.wait()
    return [parent.id, child.id, other.id]


async def board_with_family(sup: supervisor.Supervisor) -> tuple[Board, list[str]]:
    ids = await family(sup)
    board = Board()
    board.update(await sup.tree())
    return board, ids


def press(board: Board, *keys: str) -> KeyAction | None:
    wish = None
    for key in keys:
        wish = board.press(key)
    return wish


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("jk", ["j", "k"]),
        ("\x1b[A\x1b[B\x1bOA", ["up", "down", "up"]),
        ("\x1b", ["escape"]),
        ("\x1b[5~q", ["q"]),
        ("a\r\x7f", ["a", "enter", "backspace"]),
        ("ü", ["ü"]),
    ],
)
def test_a_chunk_is_split_into_keys(text: str, keys: list[str]) -> None:
    assert list(split_keys(text)) == keys


async def test_the_arrow_keys_select_a_line() -> None:
    async with supervisor.open() as sup:
        board, (first, second, last) = await board_with_family(sup)

        press(board, "up")
        assert board.selected_id == first
        press(board, "down")
        assert board.selected_id == second
        press(board, "down", "down", "down")
        assert board.selected_id == last


async def test_the_selected_session_stays_selected() -> None:
    async with supervisor.open() as sup:
        board, (_, child, last) = await board_with_family(sup)
        press(board, "down")
        board.update(await sup.tree())
        assert board.selected_id == child

        await sup.delete(child)
        board.update(await sup.tree())
        assert board.selected_id == last


async def test_a_text_is_typed_edited_and_discarded() -> None:
    async with supervisor.open() as sup:
        board, (first, *_) = await board_with_family(sup)

        assert press(board, "s", "h", "o", "backspace", "i", "enter") == KeyAction(
            "steer", first, "hi"
        )
        assert press(board, "m", "x", "escape") is None
        assert board.pending_action is None
        assert press(board, "i") == KeyAction("interrupt", first)
        press(board, "q")
        assert board.is_finished


def test_an_empty_board_has_no_actions() -> None:
    board = Board()
    board.update(())

    assert press(board, "i", "s", "down", "up") is None


async def test_the_board_fits_and_is_safe() -> None:
    async with supervisor.open() as sup:
        board, _ = await board_with_family(sup)
        stats = await sup.stats()
        console = Console(file=io.StringIO(), width=60, force_terminal=False)
        console.print(draw(board, stats, "", width=60, height=5, now=0.0))

    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 5
    assert "3 of 3 sessions live" in lines[0]
    assert "parent" in lines[2]
    assert "\x1b" not in console.file.getvalue()


async def drawn(
    sup: supervisor.Supervisor, *keys: str, width: int = 80, height: int = 24
) -> list[str]:
    board = Board()
    board.update(await sup.tree(), await sup.permissions())
    press(board, *keys)
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(draw(board, await sup.stats(), "", width=width, height=height, now=0.0))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


async def test_columns_are_aligned_with_wide_names() -> None:
    async with supervisor.open() as sup:
        for name in ("plain", "日本語の名前がとても長い長い長い", "e\u0301te\u0301"):
            await sup.create("echo", name=name)
        lines = [line for line in await drawn(sup) if " idle " in line]

    assert len({cell_len(line[: line.index(" idle ")]) for line in lines}) == 1
    assert "…" in lines[1]


async def test_a_wide_terminal_has_room_for_a_long_name() -> None:
    async with supervisor.open() as sup:
        await sup.create("echo", name="a name of more than twenty letters")

        assert "a name of more than twenty letters  idle" in "\n".join(await drawn(sup, width=120))
        assert "a name of more than " in "\n".join(await drawn(sup))


async def test_urgent_information_comes_first() -> None:
    async with supervisor.open(settings=BRIEF) as sup:
        session = await sup.create("scripted")
        await session.send("ask rm")
        while not await sup.permissions():
            await trio.lowlevel.checkpoint()

        assert (await drawn(sup))[0].startswith("understudy  1 in the inbox; 1 of 1")


async def ask(sup: supervisor.Supervisor, count: int) -> tuple[supervisor.PermissionRequest, ...]:
    """Start a number of sessions that each ask for permission."""
    for number in range(count):
        session = await sup.create("scripted", name=f"bob {number}")
        await session.send("ask rm\x1b[2J")
        while len(await sup.permissions()) <= number:
            await trio.lowlevel.checkpoint()
    return await sup.permissions()


async def test_requests_are_listed_with_the_answer_command() -> None:
    async with supervisor.open(settings=BRIEF) as sup:
        (request,) = await ask(sup, 1)
        lines = await drawn(sup, width=100)

    place = next(place for place, line in enumerate(lines) if "bob 0 asks for rm" in line)
    assert request.question.partition("\x1b")[0] in lines[place]
    assert lines[place + 1].startswith(
        f"    understudy answer {request.id} DECISION  (allow_once, "
    )
    assert "\x1b" not in "\n".join(lines)


async def test_requests_leave_room_for_the_sessions() -> None:
    async with supervisor.open(settings=BRIEF) as sup:
        await ask(sup, 5)
        boards = {height: await drawn(sup, height=height) for height in (5, 8, 12, 16, 24)}

    for height, lines in boards.items():
        assert len(lines) <= height
        assert any(line.startswith("> bob 0") for line in lines)
    answers = [sum("understudy answer" in line for line in lines) for lines in boards.values()]
    assert answers == [0, 0, 1, 2, 3]
    assert all("`understudy inbox` lists all requests." in boards[height] for height in (8, 24))


async def test_the_end_of_a_long_typed_text_is_shown() -> None:
    async with supervisor.open() as sup:
        await sup.create("echo")
        (*_, foot) = await drawn(sup, "m", *"abc" * 40, "!", width=40)

    assert foot.startswith("send: ")
    assert foot.endswith("abc!▏")


async def test_actions_are_performed() -> None:
    async with supervisor.open() as sup:
        session = await sup.create("scripted")
        await perform_action(sup, KeyAction("send", session.id, "tool bash 60"))
        async with session.watch() as feed:
            async for item in feed:
                if isinstance(item, supervisor.Record) and item.kind == "tool_call":
                    break

        assert await perform_action(sup, KeyAction("steer", session.id, "softer")) == "staged"
        assert await perform_action(sup, KeyAction("interrupt", session.id)) == "1 interrupted"
        with trio.fail_after(10):
            assert await perform_action(sup, KeyAction("stop", session.id)) == "stopped"
