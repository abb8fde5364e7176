"""Run and kill supervisors, one after the other, on one file, and check what they acknowledged."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

import supervisor
from supervisor import AgentStartFailed, Info, Restart, Supervisor, SupervisorError, Turn

from .crash_child import SETTINGS, CrashPlan
from .crash_oracle import Found, problems_after, problems_of, problems_of_notifications, read_store

# Between two reports of a child; exceeded only by a child that hangs.
HANG_SECONDS: Final = 60.0
_ROOT: Final = Path(__file__).parents[2]

Report = dict[str, Any]


class CrashRunner:
    """A process that forks a supervisor for each plan; see crash_child.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        # Of the running child: 0 before it is known and after it was killed, so that a pid is
        # signalled once. Reports written before the kill are read after it.
        self._pid = 0

    def _begin(self, plan: CrashPlan) -> Iterator[Report]:
        """Start a child and yield its reports; the last one says that it has exited."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(attrs.asdict(plan)) + "\n")
        self._process.stdin.flush()
        self._pid = 0
        for line in self._process.stdout:
            report = json.loads(line)
            self._pid = report.get("pid", self._pid)
            yield report
            if report["what"] == "exited":
                return

    def _kill(self) -> None:
        pid, self._pid = self._pid, 0
        os.kill(pid, signal.SIGKILL)  # the pid is valid: the child waits to be killed

    def run(self, plan: CrashPlan, *, reports: int | None = None) -> list[Report]:
        """Run a child until it made this many reports or killed itself; return its reports."""
        said: list[Report] = []
        with self._hang_limit() as restart_limit:
            for report in self._begin(plan):
                restart_limit()
                if report["what"] == "exited":
                    return said
                if report["what"] != "started":
                    said.append(report)
                is_enough = reports is not None and len(said) >= reports
                if self._pid and (is_enough or report["what"] == "broken"):
                    self._kill()
        raise AssertionError(f"the child hung after these reports: {said[-3:]}")

    @contextmanager
    def _hang_limit(self) -> Iterator[Callable[[], None]]:
        """Kill the process if it does not report; yield a function to be called at each report.

        Without it, a child that hangs would block the test for ever.
        """

        def start() -> threading.Timer:
            timer = threading.Timer(HANG_SECONDS, self._process.kill)
            timer.start()
            return timer

        def restart() -> None:
            timers.pop().cancel()
            timers.append(start())

        timers = [start()]
        try:
            yield restart
        finally:
            timers.pop().cancel()

    @contextmanager
    def running(self, plan: CrashPlan) -> Iterator[int]:
        """Run a child that has opened its file until the block ends; yield its pid."""
        said = self._begin(plan)
        assert self._opened_or_broken(said) == "opened"
        # Keep reading: the child blocks when the pipe is full.
        reader = threading.Thread(target=lambda: [*said])
        reader.start()
        try:
            yield self._pid
        finally:
            self._kill()
            reader.join()

    def try_to_open(self, plan: CrashPlan) -> str:
        """Start a child and leave it running; return `opened` or `broken`."""
        return self._opened_or_broken(self._begin(plan))

    def _opened_or_broken(self, said: Iterator[Report]) -> str:
        what = ""
        while not (self._pid and what):
            report = next(said)
            if report["what"] in ("opened", "broken"):
                what = report["what"]
        return what


@contextmanager
def open_crash_runner() -> Iterator[CrashRunner]:
    """Yield a runner for any number of children; no process is left after the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.crash_child"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield CrashRunner(process)
        finally:
            process.kill()


@supervisor.agent("fake")
async def idle_agent(turn: Turn) -> str:
    """Answer at once; the agent of the children's sessions while they are checked."""
    return "done"


class CrashedFile:
    """One file, and everything that was acknowledged on it so far."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self._random = random.Random(seed)
        self._seeds = iter(range(1_000 * seed, 1_000 * (seed + 1)))
        self._acknowledged: list[Report] = []
        self._deleted: set[str] = set()

    def kill(self, runner: CrashRunner) -> None:
        """Run and kill one child, then check the file against all acknowledgements."""
        before = read_store(self.path)
        plan, reports = self._choose_kill(needs_recovery=bool(before.open_turns))
        said = runner.run(plan, reports=reports)
        self._remember(said)
        found = read_store(self.path)
        problems = [*problems_of(found), *self._lost_acknowledgements(found)]
        if {"what": "opened"} in said:
            # Recovery of the previous run is complete before `open` returns.
            problems += problems_after(self._without_deleted(before), found)
        assert not problems, (plan, reports, problems)

    def _choose_kill(self, *, needs_recovery: bool) -> tuple[CrashPlan, int | None]:
        """Choose a kill from outside, or inside SQLite; also during a recovery."""
        path, seed = str(self.path), next(self._seeds)
        if needs_recovery and self._random.random() < 0.5:
            return CrashPlan(path, seed, kill_at_step=self._random.randrange(1, 300)), None
        if self._random.random() < 0.3:
            return CrashPlan(path, seed, kill_at_step=self._random.randrange(1, 20_000)), None
        return CrashPlan(path, seed), self._random.choice((1, 3, 30, 100, 200))

    def _remember(self, said: list[Report]) -> None:
        for report in said:
            assert report["what"] != "broken", report["error"]
            if report["what"] == "deleting":
                self._deleted.add(report["session"])
            elif report["what"] in ("sent", "created"):
                self._acknowledged.append(report)

    def _kept(self, what: str) -> Iterator[Report]:
        return (
            one
            for one in self._acknowledged
            if one["what"] == what and one["session"] not in self._deleted
        )

    def _lost_acknowledgements(self, found: Found) -> Iterator[str]:
        for one in self._kept("created"):
            if one["session"] not in found.stored:
                yield f"{one['session']} was created but is missing"
        for one in self._kept("sent"):
            there = [
                body["text"]
                for body in found.bodies(one["session"], "input_accepted")
                if body["input_id"] == one["input"]
            ]
            if there != [one["text"]]:
                yield f"{one} was acknowledged but the file has {there}"

    def _without_deleted(self, found: Found) -> Found:
        keep = found.records.keys() - self._deleted
        return attrs.evolve(
            found,
            stored={one: found.stored[one] for one in found.stored if one in keep},
            records={one: found.records[one] for one in keep},
        )

    async def check(self) -> None:
        """Open the file here; check recovery, every query, and repeated requests."""
        before = read_store(self.path)
        async with supervisor.open(self.path, agents=[idle_agent], settings=SETTINGS) as sup:
            after = read_store(self.path)
            problems = [*problems_of(after), *problems_after(before, after)]
            assert not problems, problems
            await self._query_everything(sup, after)
            await _wait_until_at_rest(sup)
            await self._repeat(sup)
            await _wait_until_at_rest(sup)
        found = read_store(self.path)
        problems = [*problems_of(found), *problems_of_notifications(found)]
        assert not problems, problems

    async def _query_everything(self, sup: Supervisor, found: Found) -> None:
        listed = {info.id for info in (await sup.list(limit=10_000)).items}
        assert listed == found.stored.keys()
        in_tree = [node.id for root in await sup.tree() for node in _nodes(root)]
        assert len(set(in_tree)) == len(in_tree)
        assert listed.issuperset(in_tree)
        assert (await sup.stats()).sessions == len(listed)
        for session_id in listed:
            await sup.session(session_id).transcript()

    async def _repeat(self, sup: Supervisor) -> None:
        """Check that a request repeated with its idempotency key has its earlier answer."""
        with_keys = [
            one
            for what in ("sent", "created")
            for one in self._kept(what)
            if one["key"] is not None
        ]
        for one in self._random.sample(with_keys, min(8, len(with_keys))):
            if one["what"] == "created" and one["parent"] in self._deleted:
                continue  # the key was deleted with the parent
            answer = await _ask_again(sup, one)
            assert answer in (one.get("input", one["session"]), "start_failed"), (answer, one)


async def _ask_again(sup: Supervisor, one: Report) -> str:
    """Return the id in the answer, or the code of the error."""
    key = one["key"]
    try:
        if one["what"] == "sent":
            session, mode, ttl = sup.session(one["session"]), one["mode"], one["ttl"]
            given = {"when_busy": mode, "ttl_seconds": ttl, "idempotency_key": key}
            return (await session.send(one["text"], **given)).input_id
        if one["parent"] is None:
            restart = Restart(policy=one["policy"])
            return (await sup.create("fake", restart=restart, idempotency_key=key)).id
        parent, lifetime, ttl = sup.session(one["parent"]), one["lifetime"], one["ttl"]
        return (
            await parent.spawn(
                "fake", one["text"], lifetime=lifetime, ttl_seconds=ttl, idempotency_key=key
            )
        ).id
    except AgentStartFailed:
        return "start_failed"  # the kill hit its start
    except SupervisorError as error:
        return error.code


async def _wait_until_at_rest(sup: Supervisor) -> None:
    """Wait until all queued inputs have run and all restarts are done."""
    with trio.fail_after(HANG_SECONDS):
        while any(map(_moves, (await sup.list(limit=10_000)).items)):
            await trio.lowlevel.checkpoint()


def _moves(info: Info) -> bool:
    rests = info.phase in ("idle", "suspended", "stopped")
    return not rests or (info.phase != "stopped" and info.queued > 0)


def _nodes(node: Any) -> Iterator[Any]:  # noqa: ANN401 - a Node
    yield node
    for child in node.children:
        yield from _nodes(child)
