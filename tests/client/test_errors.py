"""Every error that a caller can cause, with the embedding API and with the client."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import supervisor
from supervisor import Limits, Restart, SupervisorError
from tests.support.served_supervisor import KINDS, Kind, Session, Sup, busy, opened, seen

Cause = Callable[[Sup, Path], Awaitable[Any]]
STILLBORN = supervisor.acp("stillborn", command=["/nonexistent/program"])


async def take_a_key_twice(sup: Sup, _: Path) -> None:
    first = await sup.create("echo", key="echo:a:b")
    await first.stop()
    await first.archive()
    await sup.create("echo", key="echo:a:b")
    await first.unarchive()


async def take_a_name_twice(sup: Sup, _: Path) -> None:
    await sup.create("echo", name="a")
    await (await sup.create("echo")).set(name="a")


async def resolve_a_name_of_two(sup: Sup, _: Path) -> None:
    for root in [await sup.create("echo"), await sup.create("echo")]:
        await root.spawn("echo", "hi", name="a")
    await sup.resolve("a")


async def spawn_too_many(sup: Sup, _: Path) -> None:
    session = await sup.create("echo", limits=Limits(max_children=1))
    await session.spawn("scripted", "sleep 60")
    await session.spawn("scripted", "sleep 60")


async def spawn_too_deep(sup: Sup, _: Path) -> None:
    session = await sup.create("echo", limits=Limits(max_depth=0))
    await session.spawn("echo", "x")


async def spend_all(sup: Sup, _: Path) -> None:
    session = await sup.create("scripted", limits=Limits(tokens=5))
    await session.prompt("use 10")
    await session.send("say more")


async def spend_all_turns(sup: Sup, _: Path) -> None:
    session = await sup.create("echo", limits=Limits(turns=1))
    await session.prompt("one")
    await session.prompt("two")


async def fill_the_queue(sup: Sup, _: Path) -> None:
    session = await sup.create("scripted", queue_cap=1)
    for _number in range(3):
        await session.send("sleep 60")


async def use_a_key_for_something_else(sup: Sup, _: Path) -> None:
    session = await sup.create("echo")
    await session.send("one", idempotency_key="k")
    await session.send("two", idempotency_key="k")


async def asking(sup: Sup) -> tuple[Session, supervisor.PermissionRequest]:
    session = await busy(sup, "ask bash\nsleep 60")
    await seen(session, "permission_asked")
    return session, (await sup.permissions())[-1]


async def answer_twice(sup: Sup, _: Path) -> None:
    _session, request = await asking(sup)
    await sup.answer(request.id, "allow_once")
    await sup.answer(request.id, "reject_once")


async def decide_what_is_no_decision(sup: Sup, _: Path) -> None:
    _session, request = await asking(sup)
    await sup.answer(request.id, "perhaps")  # type: ignore[arg-type]


async def want_an_option_that_is_not_offered(sup: Sup, _: Path) -> None:
    await (await sup.create("echo")).set(model="large")


async def send_to_the_archive(sup: Sup, _: Path) -> None:
    session = await sup.create("echo")
    await session.stop()
    await session.archive()
    await session.send("x")


async def send_to_one_that_is_to_stay_stopped(sup: Sup, _: Path) -> None:
    session = await sup.create("echo")
    await session.stop()
    await session.prompt("x", if_stopped="reject")


async def wait_for_what_was_cancelled(sup: Sup, _: Path) -> None:
    session = await busy(sup)
    receipt = await session.send("later")
    await session.cancel_input(receipt.input_id)
    await session.result(receipt.input_id)


async def wait_for_what_is_held(sup: Sup, _: Path) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))
    await session.send("sleep 0.01\ncrash")
    receipt = await session.send("say later")
    await session.result(receipt.input_id)


async def be_told_no(sup: Sup, _: Path) -> None:
    session = await busy(sup)
    await session.send("x", when_busy="reject")


async def bring_in_a_broken_file(sup: Sup, folder: Path) -> None:
    path = folder / "broken.jsonl"
    path.write_text('{"understudy": 1, "session": {}}\nnonsense\n')
    await sup.import_(path)


async def copy_onto_something(sup: Sup, folder: Path) -> None:
    path = folder / "there.db"
    path.write_text("precious")
    await sup.backup(path)


async def repair_one_that_works(sup: Sup, _: Path) -> None:
    await (await busy(sup)).repair(dry_run=False)


async def say_too_much(sup: Sup, _: Path) -> None:
    await (await sup.create("echo")).send("x" * 70_000)


async def steer_nobody(sup: Sup, _: Path) -> None:
    await (await sup.create("echo")).steer("x")


async def replay_the_future(sup: Sup, _: Path) -> None:
    await (await sup.create("echo")).replay(999)


async def ask_for_a_house_that_leaves(sup: Sup, _: Path) -> None:
    await sup.drain()
    await sup.create("echo")


async def look_for_nobody(sup: Sup, _: Path) -> None:
    await sup.get("s_nobody")


async def want_an_unknown_agent(sup: Sup, _: Path) -> None:
    await sup.create("nobody")


async def want_a_bad_key(sup: Sup, _: Path) -> None:
    await sup.create("echo", key="a:b")


async def answer_nothing(sup: Sup, _: Path) -> None:
    await sup.answer("req_none", "allow_once")


async def have_an_agent_that_cannot_start(sup: Sup, _: Path) -> None:
    await sup.create("stillborn")


CAUSES: dict[Cause, type[SupervisorError]] = {
    take_a_key_twice: supervisor.KeyTaken,
    take_a_name_twice: supervisor.NameTaken,
    resolve_a_name_of_two: supervisor.AmbiguousId,
    spawn_too_many: supervisor.SpawnRefused,
    spawn_too_deep: supervisor.SpawnRefused,
    spend_all: supervisor.BudgetSpent,
    spend_all_turns: supervisor.BudgetSpent,
    fill_the_queue: supervisor.QueueFull,
    use_a_key_for_something_else: supervisor.IdempotencyConflict,
    answer_twice: supervisor.PermissionConflict,
    decide_what_is_no_decision: supervisor.InvalidDecision,
    want_an_option_that_is_not_offered: supervisor.InvalidOverride,
    send_to_the_archive: supervisor.SessionNotActive,
    send_to_one_that_is_to_stay_stopped: supervisor.SessionNotActive,
    wait_for_what_was_cancelled: supervisor.InputRefused,
    wait_for_what_is_held: supervisor.SessionNotActive,
    be_told_no: supervisor.InputRefused,
    bring_in_a_broken_file: supervisor.ImportFailed,
    copy_onto_something: supervisor.ConfigError,
    repair_one_that_works: supervisor.RepairRefused,
    say_too_much: supervisor.InputTooLarge,
    steer_nobody: supervisor.NotRunning,
    replay_the_future: supervisor.RecordNotFound,
    ask_for_a_house_that_leaves: supervisor.SessionNotActive,
    look_for_nobody: supervisor.SessionNotFound,
    want_an_unknown_agent: supervisor.AgentUnknown,
    want_a_bad_key: supervisor.InvalidKey,
    answer_nothing: supervisor.PermissionNotFound,
    have_an_agent_that_cannot_start: supervisor.AgentStartFailed,
}
# Errors that only agents get, or only the process that opens a store.
OF_OTHERS = {
    supervisor.TurnOver,
    supervisor.OutputTooLarge,
    supervisor.PermissionDenied,
    supervisor.StoreLocked,
    supervisor.StoreTooNew,
    supervisor.StoreDegraded,
    supervisor.Fenced,
    supervisor.NotStorable,
    # Between a client and the daemon.
    supervisor.NoDaemon,
    supervisor.DaemonBusy,
    supervisor.AnswerLost,
    SupervisorError,
}


def test_every_error_has_a_case() -> None:
    public = {getattr(supervisor, name) for name in supervisor.__all__}
    errors = {one for one in public if isinstance(one, type) and issubclass(one, SupervisorError)}

    assert set(CAUSES.values()) | OF_OTHERS == errors


async def raised(kind: Kind, folder: Path, cause: Cause) -> dict[str, Any]:
    """Return the error of the call, without ids that differ between runs."""
    await trio.Path(folder).mkdir()
    async with opened(kind, folder, agents=[STILLBORN]) as sup:
        with pytest.raises(SupervisorError) as caught:
            await cause(sup, folder)
    error = caught.value
    words = str(error).replace(str(folder), "FOLDER")
    return {
        "class": type(error),
        "code": error.code,
        "words": re.sub(r"\b(?:s|in|turn|call|req)_[a-z0-9]{12}\b", "ID", words),
        "candidates": [(one.kind, one.name) for one in getattr(error, "candidates", ())],
        **{name: getattr(error, name, None) for name in ("limit", "used", "allowed", "line")},
    }


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
async def test_client_and_embedding_api_raise_the_same_errors(folder: Path, cause: Cause) -> None:
    embedded, *others = [await raised(kind, folder / kind, cause) for kind in KINDS]

    assert others == [embedded] * len(others)
    assert embedded["class"] is CAUSES[cause]
