"""The public contract: names that callers depend on, tested from outside.

A rename inside the packages must never reach this file. A name that is missing here breaks a
caller; a shape may gain fields (at the end, with defaults) and never loses or renames one.
"""

from __future__ import annotations

import inspect
from typing import Any

import attrs
import pytest

import actors
import actors.testing
import supervisor
from supervisor.api.routes import OPERATIONS
from supervisor.cli.command_table import COMMANDS
from supervisor.core.records import KINDS

SESSION_OPTIONS = (
    "title custom ladder queue_cap max_text_bytes max_turn_bytes steer_fallback"
    " permission_timeout_seconds suspend_after_seconds quiet_after_seconds stalled_after_seconds"
    " tool_stalled_after_seconds on_stall turn_deadline_seconds answers_for_children"
)

ERRORS = (
    "SessionNotFound SessionNotActive KeyTaken InvalidKey SpawnRefused InputRefused QueueFull"
    " InputTooLarge NotRunning TurnOver IdempotencyConflict PermissionNotFound PermissionConflict"
    " InvalidDecision InvalidOverride PermissionDenied BudgetSpent StoreDegraded StoreLocked"
    " StoreTooNew Fenced"
    " AgentUnknown AgentStartFailed ConfigError RecordNotFound OutputTooLarge ImportFailed"
    " RepairRefused NotStorable NoDaemon DaemonBusy AnswerLost"
)

# Class: its fields, in the order in which callers may pass or unpack them.
SHAPES = {
    "Settings": "limits queue_cap max_text_bytes max_turn_bytes steer_fallback quiet_after_seconds"
    " stalled_after_seconds tool_stalled_after_seconds on_stall turn_deadline_seconds"
    " suspend_after_seconds restart ladder permission_timeout_seconds exit_seconds snapshot_every"
    " start_concurrency max_sessions max_running_turns max_agent_processes answers_for_children"
    " max_pending_output_bytes",
    "Limits": "max_depth max_children max_descendants max_spawns turns tokens cost wall_seconds",
    "Restart": "policy max_restarts within_seconds backoff_seconds",
    "Ladder": "ask_seconds close_seconds terminate_seconds kill_seconds",
    "Receipt": "input_id session_id status position turn_id previous_turn_id generation cancelled",
    "TurnResult": "turn_id text outcome stop_reason usage error",
    "InterruptReport": (
        "scope matched stopped already_over stale unreachable ladder_step seconds unknown"
    ),
    "Input": "id text status position accepted_at expires_at",
    "PermissionRequest": "id session_id turn_id tool question input options asked_at expires_at"
    " asks",
    "Page": "items next",
    "RepairReport": "session_id dry_run problems appended row_made",
    "Problem": "code severity seq detail",
    "Info": "id key kind name title tags custom agent workspace phase archived badge parent root"
    " depth role lifetime expires_at limits permissions children turn_id turns messages"
    " tool_calls queued generation epoch last_seq usage stop_reason stop_detail last_failure"
    " waiting_for restarts agent_session_id pid created_at updated_at last_active_at spent"
    " last_outcome attention seen_seq options offered_options context",
    "AgentOption": "id name category kind current values has_more",
    "ContextUse": "used size",
    "LastOutcome": "outcome reason at turn_id seq",
    "Attention": "kind detail at seq",
    "SessionKey": "agent channel peer thread",
    "Permissions": "tools skills mcp_servers workspace_paths network_channels sandbox_profiles"
    " mode",
    "Stats": "sessions live phases badges running_turns queued permissions turns messages"
    " tool_calls restarts usage zombies last_position store damaged",
    "StoreState": "degraded problem hint read_only waiting waiting_bytes wait_seconds throttled"
    " findings",
    "StoreFinding": "code detail hint",
    "InputState": "id session_id status position turn_id result code detail hint",
    "Message": "role text at turn_id steered",
    "TurnRecords": "turn_id records",
    "SearchHit": "session_id seq at turn_id kind snippet title agent",
    "CleanupReport": "dry_run deleted bytes failed",
    "Reloaded": "added changed removed settings fixed",
    "Why": "session_id chain cycle",
    "Waits": "session_id agent badge waits_for detail since seconds",
    "News": "kind child agent name role at outcome text reason detail",
    "ChildRequest": "id session_id tool question options",
    "PermissionRule": "id tool decision",
    "Failure": "kind detail",
    "Usage": "input_tokens output_tokens cost",
    "Spending": "turns tokens cost wall_seconds",
    "Confined": "agent permissions limits workspace",
    "Record": "session_id seq at turn_id kind body",
    "Delta": "session_id turn_id kind part offset text",
    "Gap": "first last",
    "HookEvent": "point session_id turn_id data",
}

OTHER_NAMES = (
    "open connect restore agent acp command scripted_process Supervisor Session Child Turn Call"
    " TurnScope ToolCall Options Node AgentKind PythonAgent AcpAgent CommandAgent Watcher"
    " GlobalFeed Item Scope Phase Badge WhenBusy Decision SessionId TurnId InputId CallId RequestId"
    " Hooks Hook Change Deny Stop RemoteSupervisor RemoteSession RemoteWatcher RemoteGlobalFeed"
    " SupervisorError"
)

METHODS = {
    "Supervisor": "session get exists create get_or_create new reset delete list tree search stats"
    " drain import_ backup cleanup permissions answer watch reload hooks",
    "Session": "send prompt steer interrupt spawn watch info history transcript why inputs"
    " edit_input move_input promote_input cancel_input stop wait_stopped resume fork clear append"
    " archive unarchive set rules remove_rule export repair replay result input wait",
    "Turn": "id session_id input_id text history news usage say tool steering ask spawn think plan"
    " descendant requests answer_request hang attachments workspace",
    "Call": "id result update interrupted",
    "Child": "id wait send prompt result steer interrupt stop info",
}

PARAMETERS = {
    "Supervisor.create": "agent key name limits permissions restart workspace tags idempotency_key",
    "Supervisor.list": "agent phase badge tag workspace channel peer parent root archived text"
    " created_after created_before updated_after updated_before limit cursor",
    "Supervisor.search": "text session limit cursor",
    "Supervisor.tree": "root",
    "Supervisor.import_": "path format agent",
    "Supervisor.cleanup": "older_than_seconds keep_last max_bytes dry_run",
    "Supervisor.reload": "agents settings",
    "Session.send": "text attachments when_busy idempotency_key ttl_seconds if_stopped queued"
    " trace",
    "Session.prompt": "text attachments when_busy idempotency_key ttl_seconds if_stopped",
    "Session.steer": "text idempotency_key ttl_seconds",
    "Session.interrupt": "scope reason replace_with queued",
    "Session.spawn": "agent text role ttl_seconds permissions lifetime on_end idempotency_key",
    "Session.watch": "after",
    "Session.stop": "when",
    "Session.fork": "at_turn",
    "Session.append": "role text",
    "Session.set": "title tags custom limits options model effort",
    "Session.export": "format redact",
    "Session.repair": "dry_run force",
    "Session.replay": "at",
    "Turn.ask": "question tool input kind path",
    "Hooks.add": "point callback once required deadline_seconds",
}

RECORD_KINDS = (
    "session_created session_changed session_started session_suspended session_resumed"
    " session_cleared session_archived session_stopped agent_attached input_accepted input_changed"
    " input_settled generation_raised turn_started user_text agent_text thought tool_call"
    " tool_update tool_ended plan permission_asked permission_answered rule_changed usage steered"
    " interrupted child_started child_ended spawn_refused seen quiet stalled progress_resumed"
    " agent_restarting warning turn_ended options_changed"
)

COMMAND_NAMES = (
    "demo serve run chat ps tree top new send steer interrupt spawn inputs stop resume fork clear"
    " archive rm watch log show why export import search inbox answer agents config doctor repair"
    " replay backup restore cleanup reload completion version"
)

ROUTES = (
    "GET /health, GET /ready, GET /version, GET /stats, GET /tree, GET /search,"
    " GET /openapi.json, POST /sessions, GET /sessions, GET /sessions/{id},"
    " PATCH /sessions/{id}, DELETE /sessions/{id}, POST /sessions/{id}/inputs,"
    " GET /sessions/{id}/inputs, PATCH /sessions/{id}/inputs/{input},"
    " DELETE /sessions/{id}/inputs/{input}, GET /sessions/{id}/inputs/{input},"
    " POST /sessions/{id}/interrupt, POST /sessions/{id}/steer, POST /sessions/{id}/spawn,"
    " POST /sessions/{id}/stop, POST /sessions/{id}/resume, POST /sessions/{id}/fork,"
    " POST /sessions/{id}/clear, POST /sessions/{id}/archive, POST /sessions/{id}/unarchive,"
    " POST /sessions/{id}/repair, GET /sessions/{id}/events, GET /sessions/{id}/stream,"
    " GET /sessions/{id}/transcript, GET /sessions/{id}/history, GET /sessions/{id}/children,"
    " GET /sessions/{id}/why, GET /stream, GET /permissions, POST /permissions/{request},"
    " POST /backup, POST /cleanup, POST /import, POST /keys/get_or_create, POST /keys/new,"
    " POST /keys/reset, POST /sessions/{id}/append,"
    " POST /sessions/{id}/inputs/{input}/promote, GET /sessions/{id}/replay,"
    " GET /sessions/{id}/rules, DELETE /sessions/{id}/rules/{rule}, POST /drain"
)

ACTOR_NAMES = (
    "Ask Actor StopActor open_actors RestartPolicy ChildSpec MailboxFull ActorStopped AskTimeout"
    " AskSelf GaveUp ActorError Group GroupSpec GroupStatistics Ref Statistics Later Ended Finished"
    " Stopped Killed Crashed Exit NameTaken UnknownActor BadSpec"
)
ACTOR_TESTING_NAMES = (
    "Probe settle simulate explore VirtualClock Step FailingSeed SimulationError Deadlock Livelock"
    " SimulatorBroken"
)


def parameters(owner: Any, name: str) -> list[str]:  # noqa: ANN401 - a class of the package
    return list(inspect.signature(getattr(owner, name)).parameters)


@pytest.mark.parametrize("name", [*ERRORS.split(), *OTHER_NAMES.split(), *SHAPES])
def test_the_package_exports_the_name(name: str) -> None:
    assert name in supervisor.__all__
    assert getattr(supervisor, name) is not None


@pytest.mark.parametrize("name", ERRORS.split())
def test_an_error_has_a_code_in_snake_case_and_a_hint(name: str) -> None:
    kind = getattr(supervisor, name)
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")

    assert issubclass(kind, supervisor.SupervisorError)
    assert kind.code == snake
    assert "hint" in parameters(kind, "__init__")


def test_a_spent_budget_is_a_refused_spawn_with_numbers() -> None:
    error = supervisor.BudgetSpent("x", hint="y", limit="turns", used=2, allowed=1)

    assert isinstance(error, supervisor.SpawnRefused)
    assert (error.limit, error.used, error.allowed) == ("turns", 2, 1)


@pytest.mark.parametrize(("name", "fields"), SHAPES.items(), ids=SHAPES)
def test_a_shape_has_its_fields_first(name: str, fields: str) -> None:
    expected = fields.split()
    kind = getattr(supervisor, name)
    if attrs.has(kind):
        found = [field.name for field in attrs.fields(kind)]
    else:
        found = [one for one in parameters(kind, "__init__") if one != "self"]

    assert set(expected) <= set(found)
    if name in ("Receipt", "TurnResult", "InterruptReport", "Input", "Page", "Record", "Gap"):
        assert found[: len(expected)] == expected


@pytest.mark.parametrize(("name", "members"), METHODS.items(), ids=METHODS)
def test_a_class_has_its_members(name: str, members: str) -> None:
    kind = getattr(supervisor, name)
    slots = {slot for one in kind.__mro__ for slot in getattr(one, "__slots__", ())}
    found = set(dir(kind)) | slots | set(getattr(kind, "__annotations__", {}))
    source = inspect.getsource(kind)

    assert [
        one for one in members.split() if one not in found and f"self.{one}" not in source
    ] == []


@pytest.mark.parametrize(("method", "names"), PARAMETERS.items(), ids=PARAMETERS)
def test_a_method_takes_its_parameters(method: str, names: str) -> None:
    owner, name = method.split(".")
    found = set(parameters(getattr(supervisor, owner), name))
    if "options" in found:
        found |= set(inspect.get_annotations(supervisor.Options))

    assert [one for one in names.split() if one not in found] == []


@pytest.mark.parametrize("name", ["create", "get_or_create", "new"])
def test_a_session_takes_every_option_by_name(name: str) -> None:
    annotations = set(inspect.get_annotations(supervisor.Options))
    found = set(parameters(supervisor.Supervisor, name))

    assert set(SESSION_OPTIONS.split()) <= annotations
    assert set(SESSION_OPTIONS.split()) <= (found | annotations if "options" in found else found)


def test_records_have_their_kinds() -> None:
    assert set(RECORD_KINDS.split()) <= set(KINDS)


def test_the_command_line_has_its_commands() -> None:
    assert set(COMMAND_NAMES.split()) <= set(COMMANDS)


def test_http_has_its_routes() -> None:
    def bare(path: str) -> str:
        kept = path.removeprefix("/v1")
        for name in ("session_id", "session"):
            kept = kept.replace(f"{{{name}}}", "{id}")
        for name in ("input", "request", "rule"):
            kept = kept.replace(f"{{{name}_id}}", f"{{{name}}}")
        return kept

    found = {f"{operation.method} {bare(operation.path)}" for operation in OPERATIONS}

    assert {one.strip() for one in ROUTES.split(",")} - found == set()


@pytest.mark.parametrize("name", ACTOR_NAMES.split())
def test_actors_exports_the_name(name: str) -> None:
    assert hasattr(actors, name)


@pytest.mark.parametrize("name", ACTOR_TESTING_NAMES.split())
def test_actors_testing_exports_the_name(name: str) -> None:
    assert hasattr(actors.testing, name)


def test_an_actor_is_started_with_its_documented_options() -> None:
    assert set(parameters(actors.RestartPolicy, "__init__")) >= {
        "kind",
        "max_restarts",
        "within_seconds",
        "backoff_seconds",
        "max_backoff_seconds",
    }
    assert {"timeout_seconds"} <= set(parameters(actors.Ref, "ask"))
    assert {"urgent"} <= set(parameters(actors.Ref, "tell"))
