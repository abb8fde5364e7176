"""The way of a prompt from the socket to the mailbox of its session passes few modules."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import attrs
import orjson
import trio

import supervisor
from actors import Ref
from supervisor.sessions.idempotency import SessionRequest
from tests.support.served_supervisor import TEST_SECONDS, served

ROOT = Path(supervisor.__file__).parent
# The modules that hand the request on; ARCHITECTURE 3 allows about 15.
MOST_PASSED = 13
# All modules of ours that run, the leaves included: clock, ids, checks of single values.
MOST_RUN = 20
# They look once at the process at the other end of a connection, which carries many prompts.
ONCE_A_CONNECTION = {"http_server/peer", "drivers/identity", "drivers/process/containment"}


@attrs.define
class PathRecorder:
    """The modules of ours that run in each task, until a session gets its request.

    A module passes the request on if it calls another module of ours; the others are leaves.
    """

    run: defaultdict[trio.lowlevel.Task, dict[str, None]] = attrs.field(
        factory=lambda: defaultdict(dict)
    )
    callers: defaultdict[trio.lowlevel.Task, set[str]] = attrs.field(
        factory=lambda: defaultdict(set)
    )
    found: list[str] | None = None
    passed: set[str] = attrs.field(factory=set)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or self.found is not None or not trio.lowlevel.in_trio_task():
            return
        task = trio.lowlevel.current_task()
        module = module_of(frame)
        if module is not None:
            self.run[task].setdefault(module)
            caller = caller_of(frame)
            if caller not in (module, None):
                self.callers[task].add(str(caller))
        is_ask = frame.f_code is Ref.ask.__code__
        if is_ask and isinstance(frame.f_locals["message"], SessionRequest):
            # The task of the request is a child of the task of its connection.
            nursery = task.parent_nursery
            assert nursery is not None
            self.found = list({**self.run[nursery.parent_task], **self.run[task]})
            self.passed = self.callers[nursery.parent_task] | self.callers[task]

    @contextmanager
    def recording(self) -> Iterator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


def module_of(frame: FrameType) -> str | None:
    """Return the name of a module of ours, None for any other."""
    path = Path(frame.f_code.co_filename)
    return str(path.relative_to(ROOT).with_suffix("")) if ROOT in path.parents else None


def caller_of(frame: FrameType) -> str | None:
    """Return the nearest module of ours that called it, perhaps through a library."""
    above = frame.f_back
    while above is not None and module_of(above) is None:
        above = above.f_back
    return None if above is None else module_of(above)


async def prompt_over_http(socket: Path, session_id: str) -> bytes:
    """Send a prompt without our client, whose modules are not on the way; return the answer."""
    body = orjson.dumps({"text": "hello"})
    head = (
        f"POST /v1/sessions/{session_id}/inputs HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    async with await trio.open_unix_socket(str(socket)) as stream:
        await stream.send_all(head.encode() + body)
        return b"".join([part async for part in stream])


async def test_a_prompt_over_http_passes_few_modules_before_the_mailbox(tmp_path: Path) -> None:
    recorder = PathRecorder()
    with trio.fail_after(TEST_SECONDS):
        async with (
            supervisor.open(tmp_path / "state.db") as sup,
            served(sup, tmp_path / "s") as socket,
        ):
            session = await sup.create("echo")
            await prompt_over_http(socket, session.id)  # what is done once is not on the way
            with recorder.recording():
                answer = await prompt_over_http(socket, session.id)

    assert answer.startswith(b"HTTP/1.1 202")
    assert recorder.found is not None
    listed = [f"{one}{'' if one in recorder.passed else ' (leaf)'}" for one in recorder.found]
    print(f"{len(recorder.passed)} of {len(listed)} modules pass it on:", *listed, sep="\n")  # noqa: T201
    assert {"http_server/connections", "api/routes/inputs", "sessions/router"} <= recorder.passed
    assert len(recorder.passed - ONCE_A_CONNECTION) <= MOST_PASSED
    assert len(set(recorder.found) - ONCE_A_CONNECTION) <= MOST_RUN
