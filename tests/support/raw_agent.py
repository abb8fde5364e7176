"""A plain script that imitates one known agent, without any code of ours.

A program: `python -I raw_agent.py MANNER LOG`. What it was answered, and what should never happen,
it writes into the log.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]

MANNER, LOG = sys.argv[1], Path(sys.argv[2])
KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
FOUR = [{"optionId": f"option {kind}", "name": kind, "kind": kind} for kind in KINDS]

cancelled = threading.Event()
at_work = threading.Event()
answers: dict[str, queue.Queue[Json]] = {}


def note(what: object) -> None:
    with LOG.open("a") as log:
        log.write(f"{what}\n")


def tell(**message: object) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def update(what: str, **fields: object) -> None:
    told = {"sessionUpdate": what, **fields}
    tell(method="session/update", params={"sessionId": "raw", "update": told})


def say(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


def ask(method: str, params: Json) -> queue.Queue[Json]:
    name = f"request {len(answers)}"
    answers[name] = queue.Queue()
    tell(id=name, method=method, params={"sessionId": "raw", **params})
    return answers[name]


def ask_leave(options: list[Json]) -> Json:
    call = {"toolCallId": "c1", "title": "rm -rf", "kind": "execute"}
    answer = ask("session/request_permission", {"toolCall": call, "options": options}).get()
    chosen: Json = answer["result"]["outcome"]
    note(chosen.get("optionId", chosen["outcome"]))
    return chosen


def end(prompt: int, reason: str = "end_turn") -> None:
    at_work.clear()
    tell(id=prompt, result={"stopReason": reason})


def fail(prompt: int, code: int, message: str) -> None:
    at_work.clear()
    tell(id=prompt, error={"code": code, "message": message})


# Imitated agents: each function takes the id of its prompt ----------------------------------


def greets(prompt: int) -> None:
    say("hello")
    end(prompt)


def takes_its_time(prompt: int) -> None:
    say("begun,")
    time.sleep(0.3)
    say(" ended")
    end(prompt)


def goes_on_when_rejected(prompt: int) -> None:
    _be_rejected()
    say("then something else")
    end(prompt)


def ends_when_rejected(prompt: int) -> None:
    _be_rejected()
    end(prompt)


def is_cancelled_when_rejected(prompt: int) -> None:
    _be_rejected()
    end(prompt, "cancelled")


def _be_rejected() -> None:
    update("tool_call", toolCallId="c1", title="rm -rf", kind="execute", status="pending")
    ask_leave(FOUR)
    update("tool_call_update", toolCallId="c1", status="failed")


def withdraws_its_question(prompt: int) -> None:
    call = {"toolCallId": "c1", "title": "rm -rf", "kind": "execute"}
    answer = ask("session/request_permission", {"toolCall": call, "options": FOUR})
    cancelled.wait()
    tell(method="$/cancel_request", params={"requestId": "request 0"})
    got = answer.get()
    note(got.get("result", {}).get("outcome", {}).get("outcome", got.get("error", {}).get("code")))
    end(prompt, "cancelled")


def talks_on_when_cancelled(prompt: int) -> None:
    say("begun")
    note("working")
    cancelled.wait()
    say(", late")
    end(prompt, "cancelled")


def fails_when_cancelled(prompt: int) -> None:
    note("working")
    cancelled.wait()
    fail(prompt, -32603, "AbortError")


def has_its_own_codes(prompt: int) -> None:
    fail(prompt, 400, "bad request")


def says_the_models_error(prompt: int) -> None:
    say("unexpected status 400 Bad Request")
    end(prompt)


def says_nothing(prompt: int) -> None:
    end(prompt)


def has_its_own_words(prompt: int) -> None:
    tell(method="_auth/status_update", params={"status": "fine"})
    tell(method="qwen/notify/context", params=[1])
    tell(method="craft/drainMidTurnQueue")
    note(ask("craft/drainMidTurnQueue", {}).get()["error"]["code"])
    update("of_a_new_kind", text="hm")
    say("hello")
    end(prompt)


def tells_no_beginnings(prompt: int) -> None:
    update("tool_call_update", toolCallId="c1", title="ls", status="in_progress")
    text = {"type": "text", "text": "README"}
    content = [{"type": "content", "content": text}]
    update("tool_call_update", toolCallId="c1", status="completed", content=content)
    say("hello")
    end(prompt)


def offers_two_ways_to_allow(prompt: int) -> None:
    first, second = ({"optionId": name, "name": name, "kind": "allow_once"} for name in "ab")
    ask_leave([first, second, {"optionId": "n", "name": "No", "kind": "reject_once"}])
    end(prompt)


def offers_no_always(prompt: int) -> None:
    ask_leave([FOUR[0], FOUR[2]])
    end(prompt)


def answers_twice(prompt: int) -> None:
    say("hello")
    end(prompt)
    end(prompt, "cancelled")
    say("late")


# The protocol ---------------------------------------------------------------------------------


def replay() -> None:
    """Replay history, as `hermes` does even on resume."""
    update("user_message_chunk", content={"type": "text", "text": "long ago"})
    say("once upon a time")
    update("tool_call", toolCallId="old", title="old", status="completed")
    update("usage_update", used=9000, size=10000, cost={"amount": 9.0, "currency": "USD"})


def serve(message: Json) -> None:
    match message:
        case {"id": name, "result": _} | {"id": name, "error": _}:
            answers[name].put(message)
        case {"id": number, "method": "initialize"}:
            able: Json = {"loadSession": MANNER == "loads"}
            if MANNER == "resumes":
                able["sessionCapabilities"] = {"resume": {}}
            tell(id=number, result={"protocolVersion": 1, "agentCapabilities": able})
        case {"id": number, "method": "session/new"}:
            tell(id=number, result={"sessionId": "raw"})
        case {"id": number, "method": "session/load" | "session/resume"}:
            replay()
            tell(id=number, result={})
        case {"id": number, "method": "session/prompt"} if at_work.is_set():
            note("a second prompt")
            tell(id=number, error={"code": -32600, "message": "turn.agent_busy"})
        case {"id": number, "method": "session/prompt"}:
            cancelled.clear()
            at_work.set()
            manner: Callable[[int], None] = globals().get(MANNER, greets)
            threading.Thread(target=manner, args=(number,), daemon=True).start()
        case {"method": "session/cancel"}:
            cancelled.set()


for line in sys.stdin:
    serve(json.loads(line))
if MANNER == "stays":  # ignores the end of its input
    time.sleep(1000)
