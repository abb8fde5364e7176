// The client of the official TypeScript SDK, against the agent whose command is given:
//
//     node client.mjs SDK_FOLDER WIRE_FILE COMMAND ARGUMENT...
//
// Every line of the agent is written to WIRE_FILE. The last line of the output is a JSON object:
// what the client has seen, by the names of the checks. An exception is an error of the run.

import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdkFolder, wireFile, command, ...words] = process.argv.slice(2);
const entry = `${sdkFolder}/node_modules/@agentclientprotocol/sdk/dist/v1/unstable/acp.js`;
const acp = await import(pathToFileURL(entry));
const { agent: calls, client: served } = acp.methods;

const seen = { updates: [], text: {}, asked: 0, forms: 0 };

function start() {
  const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
  child.stdout.on("data", (chunk) => appendFileSync(wireFile, chunk));
  const stream = acp.ndJsonStream(
    Writable.toWeb(child.stdin),
    Readable.toWeb(child.stdout),
  );
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const app = acp
    .client({ name: "judge" })
    .onRequest(served.session.requestPermission, (c) => {
      seen.asked += 1;
      const option = c.params.options.find((one) => one.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .onRequest(served.elicitation.create, () => {
      seen.forms += 1;
      return { action: "decline" };
    })
    .onNotification(served.session.update, (c) => {
      const { sessionId, update } = c.params;
      seen.updates.push(update.sessionUpdate);
      if (update.sessionUpdate === "agent_message_chunk") {
        seen.text[sessionId] = (seen.text[sessionId] ?? "") + update.content.text;
      }
    });
  return { app, stream, child, ended };
}

async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code;
  }
  return null;
}

const says = (text) => [{ type: "text", text }];

const first = start();
const results = await first.app.connectWith(first.stream, async (agent) => {
  const found = {};
  const greeting = await agent.request(calls.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { session: { notices: {} }, elicitation: { form: {} } },
  });
  found.version = greeting.protocolVersion;
  found.capabilities = Object.keys(greeting.agentCapabilities.sessionCapabilities).sort();

  const files = { name: "files", command: "/bin/false", args: [], env: [] };
  const opened = await agent.request(calls.session.new, { cwd: "/", mcpServers: [files] });
  const session = opened.sessionId;
  found.options = opened.configOptions.map((one) => one.id);
  const prompt = (text) =>
    agent.request(calls.session.prompt, { sessionId: session, prompt: says(text) });

  await prompt("servers\nwindow 500 1000\nnotice info of the agent");
  found.servers = seen.text[session];
  found.prompt = (await prompt("say hello\nthink so\ntool build 0\nask delete")).stopReason;
  const running = prompt("sleep 60");
  const queued = prompt("say never");
  await agent.notify(calls.session.cancel, { sessionId: session });
  found.cancelled = [(await running).stopReason, (await queued).stopReason];
  found.failed = await refusal(prompt("fail on purpose"));

  const option = { sessionId: session, configId: "understudy.busy_mode", value: "steer" };
  const set = await agent.request(calls.session.setConfigOption, option);
  found.chosen = set.configOptions.find((one) => one.id === option.configId).currentValue;
  const title = { sessionId: session, title: "A title" };
  found.title = (await agent.request(calls.session.setTitle, title)).title;
  found.status = (await agent.request(calls.session.status, { sessionId: session })).status;
  const fork = await agent.request(calls.session.fork, {
    sessionId: session,
    cwd: "/",
    mcpServers: [],
  });
  found.forked = fork.sessionId !== session;
  const listed = await agent.request(calls.session.list, {});
  found.listed = listed.sessions.some((one) => one.sessionId === session);
  found.unknown = await refusal(agent.request("_judge/unknown", {}));
  await agent.request(calls.session.close, { sessionId: session });
  found.session = session;
  return found;
});
first.child.stdin.end();
await first.ended;

const second = start();
results.loaded = await second.app.connectWith(second.stream, async (agent) => {
  await agent.request(calls.initialize, { protocolVersion: acp.PROTOCOL_VERSION });
  const before = seen.text[results.session];
  seen.text[results.session] = "";
  await agent.request(calls.session.load, {
    sessionId: results.session,
    cwd: "/",
    mcpServers: [],
  });
  const isSame = seen.text[results.session] === before;
  await agent.request(calls.session.delete, { sessionId: results.session });
  await agent.request(calls.session.delete, { sessionId: results.session });
  return isSame;
});
second.child.stdin.end();
await second.ended;

results.asked = seen.asked;
results.updates = [...new Set(seen.updates)].sort();
console.log(JSON.stringify(results));
process.exit(0);
