"""Where victims live and die, one after the other, on one file; and what they were promised."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

import supervisor
from supervisor import AgentStartFailed, Info, Restart, Supervisor, SupervisorError, Turn

from .judge import Found, problems_after, problems_of, problems_of_news, read
from .victim import SETTINGS, Order

# Only a victim that hangs is that slow.
PATIENCE_SECONDS: Final = 60.0
_ROOT: Final = Path(__file__).parents[3]

Report = dict[str, Any]


class Victims:
    """A process that takes orders to live, and whose children die."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._pid = 0  # of the one who lives now

    def _begin(self, order: Order) -> Iterator[Report]:
        """Have one live; gives what it says, and as the last thing that it is dead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(attrs.asdict(order)) + "\n")
        self._process.stdin.flush()
        self._pid = 0
        for line in self._process.stdout:
            report = json.loads(line)
            self._pid = report.get("pid", self._pid)
            yield report
            if report["what"] == "dead":
                return

    def _kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)  # it cannot be gone: it waits to be killed

    def live(self, order: Order, *, reports: int | None = None) -> list[Report]:
        """Have one live until it has said so much, or until it dies as ordered; all it said."""
        # Else a victim that hangs would hold the test for ever.
        watchdog = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        watchdog.start()
        said: list[Report] = []
        try:
            for report in self._begin(order):
                if report["what"] == "dead":
                    return said
                if report["what"] != "born":
                    said.append(report)
                is_enough = reports is not None and len(said) >= reports
                if self._pid and (is_enough or report["what"] == "broken"):
                    self._kill()
        finally:
            watchdog.cancel()
        raise AssertionError(f"it hung, having said: {said[-3:]}")

    @contextmanager
    def alive(self, order: Order) -> Iterator[int]:
        """One that has opened its file and lives as long as the block; gives its pid."""
        said = self._begin(order)
        assert self._how_it_began(said) == "opened"
        # Read on, or it stands still when the pipe is full.
        reader = threading.Thread(target=lambda: [*said])
        reader.start()
        try:
            yield self._pid
        finally:
            self._kill()
            reader.join()

    def try_to_open(self, order: Order) -> str:
        """Begin a life, which goes on: whether its file was `opened`, or something `broken`."""
        return self._how_it_began(self._begin(order))

    def _how_it_began(self, said: Iterator[Report]) -> str:
        what = ""
        while not (self._pid and what):
            report = next(said)
            if report["what"] in ("opened", "broken"):
                what = report["what"]
        return what


@contextmanager
def open_victims() -> Iterator[Victims]:
    """As many victims as you like; no process is left after the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.house.kills.victim"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Victims(process)
        finally:
            process.kill()


@supervisor.agent("player")
async def calm(turn: Turn) -> str:
    """What victims' sessions have for an agent when they are looked at."""
    return "calm"


class Ground:
    """One file, and all that was promised on it so far."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self._chance = random.Random(seed)
        self._seeds = iter(range(1_000 * seed, 1_000 * (seed + 1)))
        self._promised: list[Report] = []
        self._deleted: set[str] = set()

    def kill(self, victims: Victims) -> None:
        """Have one live and die on the file, and hold what it left against all that was said."""
        before = read(self.path)
        order, reports = self._some_death(is_mess=bool(before.open_turns))
        said = victims.live(order, reports=reports)
        self._note(said)
        found = read(self.path)
        problems = [*problems_of(found), *self._broken_promises(found)]
        if {"what": "opened"} in said:
            # Whatever the one before it left was put in order before anybody was let in.
            problems += problems_after(self._without_deleted(before), found)
        assert not problems, (order, reports, problems)

    def _some_death(self, *, is_mess: bool) -> tuple[Order, int | None]:
        """From outside after so many reports, or in SQLite: also in the middle of a recovery."""
        chance, path, seed = self._chance, str(self.path), next(self._seeds)
        if is_mess and chance.random() < 0.5:
            return Order(path, seed, dies_at=chance.randrange(1, 300)), None
        if chance.random() < 0.3:
            return Order(path, seed, dies_at=chance.randrange(1, 20_000)), None
        return Order(path, seed), chance.choice((1, 3, 30, 100, 200))

    def _note(self, said: list[Report]) -> None:
        for report in said:
            assert report["what"] != "broken", report["error"]
            if report["what"] == "deleting":
                self._deleted.add(report["session"])
            elif report["what"] in ("sent", "made"):
                self._promised.append(report)

    def _kept(self, what: str) -> Iterator[Report]:
        return (
            one
            for one in self._promised
            if one["what"] == what and one["session"] not in self._deleted
        )

    def _broken_promises(self, found: Found) -> Iterator[str]:
        for one in self._kept("made"):
            if one["session"] not in found.stored:
                yield f"{one['session']} was made, and is not there"
        for one in self._kept("sent"):
            there = [
                body["text"]
                for body in found.bodies(one["session"], "input_accepted")
                if body["input_id"] == one["input"]
            ]
            if there != [one["text"]]:
                yield f"{one} was acknowledged, and what is there is {there}"

    def _without_deleted(self, found: Found) -> Found:
        keep = found.records.keys() - self._deleted
        return attrs.evolve(
            found,
            stored={one: found.stored[one] for one in found.stored if one in keep},
            records={one: found.records[one] for one in keep},
        )

    async def look(self) -> None:
        """Open it ourselves: all is in order, all is answered, and what is repeated is not done."""
        before = read(self.path)
        async with supervisor.open(self.path, agents=[calm], settings=SETTINGS) as sup:
            after = read(self.path)
            problems = [*problems_of(after), *problems_after(before, after)]
            assert not problems, problems
            await self._ask_for_everything(sup, after)
            await _come_to_rest(sup)
            await self._repeat(sup)
            await _come_to_rest(sup)
        found = read(self.path)
        problems = [*problems_of(found), *problems_of_news(found)]
        assert not problems, problems

    async def _ask_for_everything(self, sup: Supervisor, found: Found) -> None:
        listed = {info.id for info in (await sup.list(limit=10_000)).items}
        assert listed == found.stored.keys()
        in_tree = [node.id for root in await sup.tree() for node in _nodes(root)]
        assert len(set(in_tree)) == len(in_tree)
        assert listed.issuperset(in_tree)
        assert (await sup.stats()).sessions == len(listed)
        for session_id in listed:
            await sup.session(session_id).transcript()

    async def _repeat(self, sup: Supervisor) -> None:
        """The same request with the same key has the same answer as in the life before."""
        with_keys = [
            one for what in ("sent", "made") for one in self._kept(what) if one["key"] is not None
        ]
        for one in self._chance.sample(with_keys, min(8, len(with_keys))):
            if one["what"] == "made" and one["parent"] in self._deleted:
                continue  # and the key with it
            answer = await _ask_again(sup, one)
            assert answer in (one.get("input", one["session"]), "start_failed"), (answer, one)


async def _ask_again(sup: Supervisor, one: Report) -> str:
    """The id that it has for an answer, or the code of its refusal."""
    key = one["key"]
    try:
        if one["what"] == "sent":
            session, mode, ttl = sup.session(one["session"]), one["mode"], one["ttl"]
            given = {"when_busy": mode, "ttl_seconds": ttl, "idempotency_key": key}
            return (await session.send(one["text"], **given)).input_id
        if one["parent"] is None:
            restart = Restart(policy=one["policy"])
            return (await sup.create("player", restart=restart, idempotency_key=key)).id
        parent, lifetime, ttl = sup.session(one["parent"]), one["lifetime"], one["ttl"]
        return (
            await parent.spawn(
                "player", one["text"], lifetime=lifetime, ttl_seconds=ttl, idempotency_key=key
            )
        ).id
    except AgentStartFailed:
        return "start_failed"  # it was killed while it started, and is asked for as it is
    except SupervisorError as error:
        return error.code


async def _come_to_rest(sup: Supervisor) -> None:
    """Whatever waited has run, and whoever was to come back is back."""
    with trio.fail_after(PATIENCE_SECONDS):
        while any(map(_moves, (await sup.list(limit=10_000)).items)):
            await trio.lowlevel.checkpoint()


def _moves(info: Info) -> bool:
    rests = info.phase in ("idle", "suspended", "stopped")
    return not rests or (info.phase != "stopped" and info.queued > 0)


def _nodes(node: Any) -> Iterator[Any]:  # noqa: ANN401 - a Node
    yield node
    for child in node.children:
        yield from _nodes(child)
