"""Parents that answer what their children ask, and never allow more than they may themselves."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    InvalidDecision,
    PermissionConflict,
    PermissionDenied,
    PermissionNotFound,
    Permissions,
    Session,
    Supervisor,
    TurnOver,
)
from supervisor.core.session import Decision
from supervisor.drivers.port import ChildRequest
from tests.sessions.cast import Deed, Player, Scene, records
from tests.sessions.family.kin import NARROW, ask, begin, refusal, refuse_false_books
from tests.sessions.lives import phase_of


@pytest.fixture
async def guardian(sup: Supervisor) -> Session:
    """May answer for those below it, and may do everything itself."""
    rights = Permissions(mode="approve_all")
    return await sup.create("player", permissions=rights, answers_for_children=True)


@pytest.fixture
async def judge(guardian: Session, player: Player) -> Scene:
    return await begin(guardian, player)


@pytest.fixture
async def asked(judge: Scene, kid: Player) -> tuple[Deed[bool], ChildRequest]:
    """A child of the guardian asks for bash: the question, and what the guardian sees of it."""
    await judge.do(judge.turn.spawn("kid", "x", permissions=NARROW))
    deed = await ask(await kid.next_scene())
    (request,) = judge.turn.requests()
    return deed, request


Asked = tuple[Deed[bool], ChildRequest]


async def test_a_parent_sees_what_its_child_asks(sup: Supervisor, asked: Asked) -> None:
    _, request = asked
    (same,) = await sup.permissions()  # people may answer it as well

    assert (request.id, request.session_id, request.tool) == (same.id, same.session_id, "bash")
    assert (request.question, request.options) == ("may I use bash?", same.options)


@pytest.mark.parametrize(
    ("decision", "allowed"),
    [
        ("allow_once", True),
        ("allow_always", True),
        ("reject_once", False),
        ("reject_always", False),
    ],
)
async def test_a_parent_decides(
    sup: Supervisor, judge: Scene, asked: Asked, decision: Decision, *, allowed: bool
) -> None:
    deed, request = asked
    await judge.do(judge.turn.answer_request(request.id, decision))

    assert await deed.wait() is allowed
    assert judge.turn.requests() == []
    child = sup.session(request.session_id)
    (answered,) = await records(child, "permission_answered")
    assert (answered.body["decision"], answered.body["by"]) == (decision, "parent")
    assert len(await child.rules()) == decision.endswith("always")


async def test_a_parent_decides_for_its_grandchildren(
    sup: Supervisor, judge: Scene, kid: Player
) -> None:
    child = await judge.do(judge.turn.spawn("kid", "x", permissions=NARROW))
    await kid.next_scene()
    await sup.session(child.id).spawn("kid", "y")
    deed = await ask(await kid.next_scene())
    (request,) = judge.turn.requests()
    await judge.do(judge.turn.answer_request(request.id, "allow_once"))

    assert await deed.wait() is True


async def test_a_parent_without_that_right_sees_nothing(
    sup: Supervisor, scene: Scene, kid: Player
) -> None:
    await scene.do(scene.turn.spawn("kid", "x"))
    deed = await ask(await kid.next_scene())
    (request,) = await sup.permissions()

    assert scene.turn.requests() == []
    with pytest.raises(PermissionDenied):
        await scene.do(scene.turn.answer_request(request.id, "reject_once"))
    assert not deed.done.is_set()


async def test_a_parent_does_not_answer_for_strangers(
    sup: Supervisor, judge: Scene, session: Session, player: Player
) -> None:
    await ask(await begin(session, player))
    (request,) = await sup.permissions()

    assert judge.turn.requests() == []
    with pytest.raises(PermissionDenied):
        await judge.do(judge.turn.answer_request(request.id, "allow_once"))


async def test_a_parent_does_not_answer_for_itself(sup: Supervisor, player: Player) -> None:
    parent = await sup.create("player", permissions=NARROW, answers_for_children=True)
    scene = await begin(parent, player)
    await ask(scene)
    (request,) = await sup.permissions()

    assert scene.turn.requests() == []
    with pytest.raises(PermissionDenied):
        await scene.do(scene.turn.answer_request(request.id, "allow_once"))


@pytest.mark.parametrize(
    "rights", [NARROW, Permissions(mode="approve_all", tools=["bash"])], ids=["mode", "tools"]
)
async def test_a_parent_allows_no_more_than_it_may_itself(
    sup: Supervisor, player: Player, kid: Player, rights: Permissions
) -> None:
    parent = await sup.create("player", permissions=rights, answers_for_children=True)
    scene = await begin(parent, player)
    await scene.do(scene.turn.spawn("kid", "x", permissions=NARROW))
    tool = "bash" if rights is NARROW else "other"
    deed = await ask(await kid.next_scene(), tool)
    if rights is not NARROW:
        assert await deed.wait() is False  # nobody had to be asked
        return
    (request,) = scene.turn.requests()
    with pytest.raises(PermissionDenied):
        await scene.do(scene.turn.answer_request(request.id, "allow_once"))
    await scene.do(scene.turn.answer_request(request.id, "reject_once"))

    assert await deed.wait() is False


async def test_a_parent_that_was_allowed_for_always_may_allow(
    sup: Supervisor, player: Player, kid: Player
) -> None:
    parent = await sup.create("player", permissions=NARROW, answers_for_children=True)
    scene = await begin(parent, player)
    mine = await ask(scene)
    await sup.answer((await sup.permissions())[0].id, "allow_always")
    await mine.wait()
    await scene.do(scene.turn.spawn("kid", "x"))
    deed = await ask(await kid.next_scene())
    (request,) = scene.turn.requests()
    await scene.do(scene.turn.answer_request(request.id, "allow_once"))

    assert await deed.wait() is True


async def test_a_parent_that_was_rejected_for_always_may_not_allow(
    sup: Supervisor, guardian: Session, player: Player, kid: Player
) -> None:
    scene = await begin(guardian, player)
    await scene.do(scene.turn.spawn("kid", "x", permissions=NARROW))
    rejecting = await sup.create("player", permissions=NARROW, answers_for_children=True)
    theirs = await begin(rejecting, player)
    mine = await ask(theirs)
    await sup.answer((await sup.permissions())[0].id, "reject_always")
    await mine.wait()
    await kid.next_scene()
    await theirs.do(theirs.turn.spawn("kid", "y"))
    await ask(await kid.next_scene())
    (request,) = theirs.turn.requests()

    with pytest.raises(PermissionDenied):
        await theirs.do(theirs.turn.answer_request(request.id, "allow_once"))


async def test_the_right_to_answer_is_given_on_by_those_who_have_it_only(
    sup: Supervisor, session: Session, guardian: Session
) -> None:
    refused = await refusal(session.spawn("kid", "x", answers_for_children=True))
    child = await guardian.spawn("kid", "x", answers_for_children=True)

    assert refused.limit == "permissions"
    assert await phase_of(child) == "running"
    await refuse_false_books(sup)


async def test_the_right_to_answer_is_not_inherited(
    guardian: Session, kid: Player, sup: Supervisor
) -> None:
    child = await guardian.spawn("kid", "x", permissions=NARROW)
    middle = await kid.next_scene()
    await child.spawn("kid", "y")
    await ask(await kid.next_scene())
    (request,) = await sup.permissions()

    assert middle.turn.requests() == []
    with pytest.raises(PermissionDenied):
        await middle.do(middle.turn.answer_request(request.id, "reject_once"))


async def test_an_answer_that_comes_second_is_a_conflict(
    sup: Supervisor, judge: Scene, asked: Asked
) -> None:
    deed, request = asked
    await sup.answer(request.id, "reject_once")

    with pytest.raises(PermissionConflict):
        await judge.do(judge.turn.answer_request(request.id, "allow_once"))
    assert await deed.wait() is False


async def test_what_is_not_offered_or_not_there_is_no_answer(judge: Scene, asked: Asked) -> None:
    _, request = asked

    with pytest.raises(InvalidDecision):
        await judge.do(judge.turn.answer_request(request.id, "maybe"))  # type: ignore[arg-type]
    with pytest.raises(PermissionNotFound):
        await judge.do(judge.turn.answer_request("req_none", "allow_once"))


async def test_a_turn_that_is_over_answers_for_nobody(judge: Scene, asked: Asked) -> None:
    _, request = asked
    judge.finish()
    await settle()

    with pytest.raises(TurnOver):
        judge.turn.requests()
    with pytest.raises(TurnOver):
        await judge.turn.answer_request(request.id, "allow_once")


async def test_a_request_of_a_child_that_is_waited_for_goes_to_people(
    sup: Supervisor, judge: Scene, kid: Player
) -> None:
    child = await judge.do(judge.turn.spawn("kid", "x", permissions=NARROW))
    waiting = judge.begin(child.wait())
    at_work = await kid.next_scene()
    deed = await ask(at_work)
    (request,) = await sup.permissions()
    await sup.answer(request.id, "allow_once")
    assert await deed.wait() is True
    at_work.finish("done")

    assert (await waiting.wait()).text == "done"


async def test_nobody_answering_is_a_rejection_in_time(asked: Asked, judge: Scene) -> None:
    deed, _ = asked
    began = trio.current_time()

    assert await deed.wait() is False
    assert trio.current_time() - began == pytest.approx(300.0)
    assert judge.turn.requests() == []
