"""Refusals name sessions as the user did, and the commands that raise limits."""

import orjson
import pytest

import supervisor
from tests.support.cli_daemon import Prepare, use_supervisor
from tests.support.cli_runner import Caller


async def without_room(sup: supervisor.Supervisor) -> None:
    bob = await sup.create("echo", name="bob")
    await bob.set(limits={"max_children": 0})


async def spent(sup: supervisor.Supervisor) -> None:
    bob = await sup.create("echo", name="bob")
    kid = await bob.spawn("echo", "hello", name="kid")
    await kid.wait()
    await bob.set(limits={"turns": 1})


async def deep(sup: supervisor.Supervisor) -> None:
    bob = await sup.create("echo", name="bob")
    await bob.spawn("echo", "hello", name="kid")
    await bob.set(limits={"max_depth": 1})


async def stored(sup: supervisor.Supervisor) -> None:
    bob = await sup.create("echo", name="bob")
    await bob.stop()
    await bob.archive()


_SPENT_HINT = (
    "raise it with `understudy set bob --turns COUNT`; `understudy usage bob` shows what is used"
)


@pytest.mark.parametrize(
    ("prepare", "typed", "said"),
    [
        (
            without_room,
            "spawn bob echo hello",
            ("session bob (s_", "or raise it with `understudy set bob --max-children COUNT`"),
        ),
        (spent, "send bob/kid hello", ("session bob/kid (s_", _SPENT_HINT)),
        (spent, "spawn bob echo hello", ("in the budget of bob (s_", _SPENT_HINT)),
        (
            deep,
            "spawn bob/kid echo hello",
            ("session bob/kid (s_", "`understudy set bob --limit max_depth=COUNT`"),
        ),
        (stored, "send bob hello", ("session bob (s_", "understudy archive ID --undo")),
    ],
    ids=["children", "budget", "budget of a root", "limit of a root", "archived"],
)
def test_a_refusal_names_what_was_typed_and_what_raises_the_limit(
    prepare: Prepare,
    typed: str,
    said: tuple[str, str],
    call: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_supervisor(monkeypatch, prepare)

    error, hint = call(*typed.split()).err.splitlines()

    assert said[0] in error
    assert said[1] in hint


def test_a_refusal_in_json_has_the_id_alone_and_the_command(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_supervisor(monkeypatch, without_room)

    said = orjson.loads(call("spawn", "bob", "echo", "hello", "--json").err)["error"]

    assert said["message"].startswith("session s_")
    assert said["hint"].endswith("`understudy set bob --max-children COUNT`")
    assert (said["limit"], said["allowed"]) == ("max_children", 0)
