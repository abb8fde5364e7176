"""What people may choose from; see acp/news/surfaced.py."""

from __future__ import annotations

from supervisor.drivers.acp.news.surfaced import MAX_BYTES, Surfaced

MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
OPTION = {"id": "model", "name": "Model", "type": "select", "currentValue": "a", "options": []}


def test_a_new_session_says_what_there_is_to_choose() -> None:
    surfaced = Surfaced().absorb_answer({"modes": MODES, "configOptions": [OPTION]})

    assert surfaced.mode == "ask"
    assert [mode["id"] for mode in surfaced.modes] == ["ask", "code"]
    assert surfaced.config_options == (OPTION,)


def test_each_update_changes_only_what_it_is_about() -> None:
    surfaced = Surfaced().absorb_answer({"modes": MODES})
    commands = [{"name": "plan", "description": "make one"}]

    for update in (
        {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
        {"sessionUpdate": "config_option_update", "configOptions": [OPTION]},
        {"sessionUpdate": "available_commands_update", "availableCommands": commands},
        {"sessionUpdate": "session_info_update", "title": "A talk"},
        {"sessionUpdate": "usage_update", "used": 10, "size": 100},
    ):
        surfaced = surfaced.absorb(update)

    assert (surfaced.mode, len(surfaced.modes)) == ("code", 2)
    assert surfaced.config_options == (OPTION,)
    assert surfaced.commands == tuple(commands)
    assert surfaced.title == "A talk"
    assert (surfaced.context_used, surfaced.context_size) == (10, 100)


def test_a_title_that_is_left_out_stays_and_one_that_is_null_goes() -> None:
    titled = Surfaced(title="A talk")

    assert titled.absorb({"sessionUpdate": "session_info_update"}).title == "A talk"
    assert titled.absorb({"sessionUpdate": "session_info_update", "title": None}).title is None


def test_an_answer_without_a_word_about_it_changes_nothing() -> None:
    surfaced = Surfaced().absorb_answer({"modes": MODES})

    answers: list[object] = [None, {}, {"modes": None, "configOptions": None}, {"modes": "x"}, []]
    for answer in answers:
        assert surfaced.absorb_answer(answer) == surfaced


def test_what_is_too_much_to_be_shown_is_cut() -> None:
    commands = [{"name": "x" * 1000} for _ in range(1000)]

    surfaced = Surfaced().absorb(
        {"sessionUpdate": "available_commands_update", "availableCommands": commands}
    )

    assert 0 < len(surfaced.commands) <= MAX_BYTES // 1000 + 1


def test_a_mode_that_is_no_name_is_not_taken() -> None:
    surfaced = Surfaced(mode="ask")

    odd_ones: list[object] = [None, 3, "", "x" * 10_000, {}]
    for odd in odd_ones:
        update = {"sessionUpdate": "current_mode_update", "currentModeId": odd}
        assert surfaced.absorb(update) == surfaced
