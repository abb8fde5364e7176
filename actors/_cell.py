"""The runtime of one actor: its incarnations, and the state that outlives them.

Rule 1: the broad `except` that turns a crash into an exit is only in this file.
Rule 2: a message is in the mailbox or in hand; nothing is awaited in between.
Rule 3: the asker of the message in hand always gets an answer or an error.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

import outcome
import trio
from trio.lowlevel import (
    Abort,
    checkpoint,
    checkpoint_if_cancelled,
    enable_ki_protection,
    reschedule,
    wait_task_rescheduled,
)

from ._actor import Actor
from ._child import Child, ExitHandler
from ._context import SystemContext
from ._errors import ActorStopped, BadSpec, GaveUp, StopActor
from ._handle import Watched
from ._mailbox import EMPTY, Mailbox
from ._message import Later, Pause, Question, Tracked
from ._ref import Ref
from ._restart import Crashed, Exit, Finished, Killed, Stopped
from ._spec import ChildSpec, MakeActor

logger = logging.getLogger("actors")

# After this number of messages without a checkpoint, other tasks get a turn.
_BATCH: Final = 128
# `shutdown_seconds=0` limits a requested stop, not `on_stop` after the actor's own end.
_OWN_END_SECONDS: Final = 5.0
_INTERRUPTED: Final = "it ended while it handled the message; its effects are unknown"


class Cell(Child):
    """An actor as its supervisor uses it."""

    __slots__ = (
        "_factory",
        "_halted",
        "_owed",
        "_pause",
        "_scope",
        "_shutdown_seconds",
        "_starter",
        "_watching",
        "actor",
        "handled",
        "lost",
        "mailbox",
        "ref",
        "task",
    )

    def __init__(
        self, spec: ChildSpec, make: MakeActor, *, supervisor: ExitHandler, context: SystemContext
    ) -> None:
        super().__init__(spec.name, spec.policy, supervisor=supervisor, context=context)
        self._factory = make
        self._shutdown_seconds = spec.shutdown_seconds
        self.mailbox = Mailbox(spec.name, spec.capacity)
        self.ref = Ref(self)
        self.handled = 0
        self.lost = 0
        # Invariant: both are set exactly while an incarnation exists, from launch to its end.
        self._scope: trio.CancelScope | None = None
        self.task: trio.lowlevel.Task | None = None
        # The incarnation, from before it takes messages until its end.
        self.actor: Actor | None = None
        # Invariant: the task inside `launch`, until the incarnation runs or has failed to
        # start.
        self._starter: trio.lowlevel.Task | None = None
        self._halted: trio.Event | None = None
        self._watching: set[Watched] | None = None
        # Answers that this incarnation still owes, in the order asked; created on first use.
        self._owed: dict[Later[Any], None] | None = None
        # Invariant: set while this incarnation's task waits for the end of the pause. Then the
        # mailbox has no reader, so messages do not wake the task.
        self._pause: Pause[Any] | None = None

    @property
    def handle(self) -> Ref:
        return self.ref

    def runs_in(self, task: trio.lowlevel.Task) -> bool:
        own = self.task
        if own is not None and not own.child_nurseries:
            return task is own  # the usual case: no other task can be inside it
        while task is not own:
            # A task in one of the actor's own nurseries counts as the actor: the nursery, and
            # so the message in hand, does not end before that task does.
            if own is None or task.parent_nursery is None:
                return False
            task = task.parent_nursery.parent_task
        return True

    # The supervisor's side --------------------------------------------------------------

    async def launch(self) -> Exit | None:
        await checkpoint_if_cancelled()
        self.launches += 1
        scope = self._scope = trio.CancelScope()
        self._starter = trio.lowlevel.current_task()
        self.state = "starting"
        self.desired_state = "run"
        called_off: Callable[[], None] | None = None

        def call_off(raise_cancel: Callable[[], None]) -> Abort:
            nonlocal called_off
            called_off = raise_cancel
            scope.cancel(reason="the start was called off")
            return Abort.FAILED

        self.context.nursery.start_soon(self._run, scope, name=self.name)
        exit_: Exit | None = await wait_task_rescheduled(call_off)
        if called_off is not None:
            called_off()
        return exit_

    async def halt(self, *, grace_seconds: float = math.inf) -> None:
        await checkpoint_if_cancelled()
        if self._scope is None:
            await checkpoint()
            return
        if self.desired_state == "run":
            self.desired_state = "halt"
            self.state = "restarting"
            self.mailbox.wake()
        self._limit_grace(grace_seconds)
        if self._halted is None:
            self._halted = trio.Event()
        await self._halted.wait()

    def request_stop(self, *, grace_seconds: float = math.inf) -> None:
        if self.reason is not None:
            return
        self.desired_state = "stop"
        self._fail_queued()
        if self._scope is None:
            self._report_ended(Stopped())
            return
        self.state = "stopping"
        self._limit_grace(grace_seconds)

    def finish(self, exit_: Exit) -> None:
        self._fail_queued()
        super().finish(exit_)
        for other in self._watching or ():
            other.remove_watcher(self)
        self._watching = None

    # Watching ---------------------------------------------------------------------------

    def watch(self, other: Watched) -> None:
        if self.mailbox.closed:
            raise ActorStopped(self.name)
        if self._watching is None:
            self._watching = set()
        self._watching.add(other)
        other.add_watcher(self)

    def unwatch(self, other: Watched) -> None:
        if self._watching is not None:
            self._watching.discard(other)
        other.remove_watcher(self)

    def notify_ended(self, other: Watched, news: object, reason: Exit) -> None:
        """Put the notification into the mailbox, which has a reserved slot for it."""
        if self._watching is not None:
            self._watching.discard(other)
        if not self.mailbox.closed:
            self.mailbox.put_reserved(news)
            if isinstance(reason, GaveUp):
                reason.handled = True

    # One incarnation --------------------------------------------------------------------

    @enable_ki_protection
    async def _run(self, scope: trio.CancelScope) -> None:
        exit_: Exit = Killed()
        self.task = trio.lowlevel.current_task()
        try:
            with scope:
                if scope.cancel_called:  # cancelled before it began
                    await checkpoint()
                actor = self.actor = self._make_actor()
                await actor.on_start()
                self._tell_starter()
                try:
                    exit_ = await self._serve(actor.receive)
                finally:
                    exit_ = await self._clean_up(actor, exit_)
        except Exception as error:  # noqa: BLE001 - rule 1: it becomes an exit
            exit_ = _exit_of(error)
        except BaseException:
            # The program is being torn down; no task may be left waiting by that.
            self._on_teardown()
            raise
        if scope.cancelled_caught and not isinstance(exit_, Crashed | Finished):
            exit_ = Killed()
        self._has_ended(exit_, called_off=scope.cancel_called)

    def _make_actor(self) -> Actor:
        actor = self._factory()
        if not isinstance(actor, Actor):
            raise BadSpec(
                "start",
                f"{self._factory!r} returned {actor!r}, which is not an Actor",
                hint="pass a class derived from actors.Actor or a callable that returns one",
            )
        actor.ref = self.ref
        return actor

    async def _serve(self, receive: Callable[[Any], Awaitable[Any]]) -> Exit:
        mailbox, take, task = self.mailbox, self.mailbox.take, self.task
        assert task is not None
        await checkpoint_if_cancelled()
        try:
            while self.desired_state == "run":
                message = take()
                if message is EMPTY:
                    mailbox.park(task)
                    await wait_task_rescheduled(self._abort_wait)
                    continue
                self.handled += 1
                if isinstance(message, Question):
                    try:
                        answer = await receive(message.message)
                        is_paused = self.settle(message, answer)
                    except BaseException as error:
                        message.fail(self.failure_of(error))
                        raise
                else:
                    answer = await receive(message)
                    is_paused = answer is not None and self.settle(None, answer)
                if is_paused:
                    answer = message = None  # an idle actor keeps neither in memory
                    await wait_task_rescheduled(self._abort_wait)
                if not self.handled % _BATCH:
                    await checkpoint()
        except Exception as error:  # noqa: BLE001 - rule 1: it becomes an exit
            return _exit_of(error)
        return Stopped()

    def settle(self, question: Question | None, answer: object) -> bool:
        """Reply, or begin the pause that `receive` has returned; return True if it begins."""
        if isinstance(answer, Pause):
            if answer.begin(self, question):
                self._pause = answer
                return True
        elif question is not None:
            self.reply(question, answer)
        return False

    def resume(self, error: BaseException | None, *, was_cancelled: bool = False) -> None:
        """Let the waiting task take messages, after a pause or a direct delivery.

        Wake it only if there is work for it: a message, a stop, an error to raise, a cancellation.
        """
        self._pause = None
        task, mailbox = self.task, self.mailbox
        assert task is not None
        if error is not None:
            reschedule(task, outcome.Error(error))
        elif mailbox.ordinary or mailbox.urgent or was_cancelled or self.desired_state != "run":
            reschedule(task)
        else:
            mailbox.park(task)

    def drop_pause(self) -> None:
        """End the pause, because the incarnation ends."""
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.drop(ActorStopped(self.name, hint=_INTERRUPTED, was_in_hand=True))

    def _abort_wait(self, raise_cancel: Callable[[], Any]) -> Abort:
        """Let the task be cancelled while it waits for a message or for the end of a pause."""
        if self.context.direct.postpone_cancel(self, raise_cancel):
            return Abort.FAILED
        self.mailbox.reader = None
        self.drop_pause()
        return Abort.SUCCEEDED

    async def _clean_up(self, actor: Actor, exit_: Exit) -> Exit:
        if self.desired_state == "run":  # no limit is set yet: it ended by itself
            self._set_deadline(self._shutdown_seconds or _OWN_END_SECONDS)
        try:
            await actor.on_stop(exit_)
        except StopActor:
            pass  # it is stopping already
        except Exception as error:
            logger.exception("actor %s failed in on_stop", self.name)
            # The first cause wins: a clean-up that fails after a crash explains nothing.
            return exit_ if isinstance(exit_, Crashed) else Crashed(error)
        return exit_

    def reply(self, question: Question, answer: object) -> None:
        """Send the answer to the asker, or owe it if it is a `Later`."""
        if type(answer) is not Later:
            question.answer(answer)
            return
        if self._owed is None:
            self._owed = {}
        answer.owe(question, self._owed)

    def _fail_owed_replies(self) -> None:
        owed, self._owed = self._owed, None
        for answer in list(owed or ()):
            answer.fail(ActorStopped(self.name, hint=_INTERRUPTED, was_in_hand=True))

    def failure_of(self, error: BaseException) -> BaseException:
        """Return the error that the asker gets if the actor raises this error."""
        if isinstance(error, Exception) and isinstance(_exit_of(error), Crashed):
            return error
        return ActorStopped(self.name, hint=_INTERRUPTED, was_in_hand=True)

    # Its end ----------------------------------------------------------------------------

    def _tell_starter(self) -> None:
        # If the start was cancelled, or a stop requested, the starter gets the end instead.
        assert self._scope is not None
        if self.desired_state == "run" and not self._scope.cancel_called:
            self.state = "running"
            self.has_started = True
            starter, self._starter = self._starter, None
            assert starter is not None
            reschedule(starter, outcome.Value(None))

    def _has_ended(self, exit_: Exit, *, called_off: bool) -> None:
        self.task = self._scope = self.actor = None
        self._fail_owed_replies()
        starter, self._starter = self._starter, None
        down, self._halted = self._halted, None
        if isinstance(exit_, Crashed) and (self.desired_state != "run" or called_off):
            logger.error("actor %s crashed while stopping", self.name, exc_info=exit_.error)
        if self.desired_state == "stop":
            self._report_ended(exit_)
        elif starter is not None or self.desired_state == "halt":
            self.state = "restarting"  # the launcher or halter decides what comes next
        else:
            assert self.supervisor is not None
            self.supervisor.child_exited(self, exit_)
        if starter is not None:
            reschedule(starter, outcome.Value(exit_))
        if down is not None:
            down.set()

    def _on_teardown(self) -> None:
        self.task = self._scope = self.actor = None
        self._fail_owed_replies()
        self.finish(Killed())
        if self._starter is not None:
            reschedule(self._starter, outcome.Value(Killed()))
        if self._halted is not None:
            self._halted.set()

    def _report_ended(self, exit_: Exit) -> None:
        assert self.supervisor is not None
        self.supervisor.child_ended_for_good(self, exit_)

    def _fail_queued(self) -> None:
        for message in self.mailbox.close():
            self.lost += 1
            if isinstance(message, Question):
                message.fail(ActorStopped(self.name))
            elif isinstance(message, Tracked):
                message.lost(ActorStopped(self.name))

    def _limit_grace(self, seconds: float) -> None:
        """Limit the incarnation's remaining time; never extend a limit that is set."""
        self._set_deadline(min(seconds, self._shutdown_seconds))

    def _set_deadline(self, seconds: float) -> None:
        scope = self._scope
        assert scope is not None
        if seconds <= 0.0:
            scope.cancel(reason="the time to stop is over")
        else:
            scope.deadline = min(scope.deadline, trio.current_time() + seconds)


def _exit_of(error: Exception) -> Exit:
    """Return the exit for an exception of an actor, also if a nursery has grouped its StopActor."""
    if isinstance(error, ExceptionGroup):
        return Finished() if error.split(StopActor)[1] is None else Crashed(error)
    return Finished() if isinstance(error, StopActor) else Crashed(error)
