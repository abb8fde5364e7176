"""Agents at work under a supervisor: told things while busy, stopped in one place, brought back."""

import trio

import supervisor


@supervisor.agent("builder")
async def builder(turn: supervisor.Turn) -> str:
    """Build in three steps, take steering between them, and ask before deploying."""
    if turn.text != "build it":
        return f"{turn.text}: noted"
    notes: list[str] = []
    for step in ("compile", "test", "package"):
        async with turn.tool(step) as call:
            await trio.sleep(60.0 if step == "test" else 0.5)
            call.result("done")
        if call.interrupted:
            notes.append(f"without the {step}")
        notes += turn.steering()
    if not await turn.ask("May I deploy it?", tool="deploy"):
        return "built, and not deployed"
    return f"built and deployed, {' and '.join(notes)}"


async def play(sup: supervisor.Supervisor, session: supervisor.Session) -> None:
    """Follow a turn by its records, and step in as it goes."""
    async with session.watch() as feed:
        async for item in feed:
            match item:
                case supervisor.Record(kind="tool_call", body={"name": name, "call_id": call}):
                    print(f"  the agent begins to {name}")
                    if name == "compile":
                        receipt = await session.send("water the plants")
                        print(f"  -> another input comes: {receipt.status}")
                        receipt = await session.steer("with the new logo")
                        print(f"  -> guidance for the running turn: {receipt.status}")
                    elif name == "test":
                        report = await session.interrupt(supervisor.ToolCall(call), reason="slow")
                        print(f"  -> the test takes too long, {report.stopped} call was stopped")
                case supervisor.Record(kind="steered"):
                    print("  the agent has taken the guidance")
                case supervisor.Record(kind="permission_asked"):
                    for request in await sup.permissions():
                        print(f"  the agent asks: {request.question}")
                        await sup.answer(request.id, "allow_once")
                        print("  -> allowed, once")
                case supervisor.Record(kind="turn_ended", body={"outcome": how, "text": text}):
                    print(f"  the turn is {how}: {text}")
                    if text.endswith("noted"):
                        return


async def wait_for(session: supervisor.Session, kind: str) -> supervisor.Record:
    """Return the first record of a kind, waiting for it if needed."""
    async with session.watch() as feed:
        async for item in feed:
            if isinstance(item, supervisor.Record) and item.kind == kind:
                return item
    raise RuntimeError("the supervisor has left")


async def main() -> None:
    settings = supervisor.Settings(restart=supervisor.Restart(backoff_seconds=0.2))
    async with supervisor.open(agents=[builder], settings=settings) as sup:
        print("A session is told things while it is busy:")
        session = await sup.create("builder")
        await session.send("build it")
        await play(sup, session)

        print("An agent dies in the middle of a turn, with another input waiting:")
        fragile = await sup.create("scripted", suspend_after_seconds=0.3)
        await fragile.send("sleep 0.1\ncrash")
        result = await fragile.prompt("say I am back")
        info = await fragile.info()
        print(f"  it was started again, {info.restarts} restart: {result.text}")

        print("No input for a while:")
        await wait_for(fragile, "session_suspended")
        print(f"  it is {(await fragile.info()).phase}")
        print(f"  -> a message wakes it: {(await fragile.prompt('say good morning')).text}")

        print("It is stopped, and resumed with all that was said:")
        await fragile.stop()
        info = await fragile.info()
        print(f"  it is {info.phase}: {info.stop_reason}")
        await fragile.resume()
        print(f"  it is {(await fragile.info()).phase}")
        said = [message.text for message in await fragile.transcript() if message.role == "agent"]
        print(f"  it has said: {'; '.join(said)}")


trio.run(main)
