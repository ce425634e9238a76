// @module-tag slow
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { Upstream } from "@sluice/bridge";
import type { HttpHostsOptions } from "@sluice/bridge/hosts";
import { expect, test } from "vitest";
import { startHosts, type Hosting } from "./hosting.ts";
import { messagesOf, openSession, post, postModern, type RawMessage } from "./raw-requests.ts";
import { scripted, scriptedHere, type Script, type ScriptedMessage } from "./scripted.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** Says what it was told in progress, in logs, in a question that it takes back, and in its answer. */
function gossip({ id, method, params }: ScriptedMessage, { say, answer, start }: Script): void {
  if (method === "initialize") return start({ id, params });
  if (method !== "tools/call")
    return id === undefined ? undefined : say({ id, error: { code: -32_601, message: "no" } });
  const { secret } = params.arguments;
  const progressToken = params._meta?.progressToken;
  const tell = (progress: number): void => {
    say({ method: "notifications/progress", params: { progressToken, progress, message: secret } });
    say({ method: "notifications/message", params: { level: "error", data: secret } });
  };
  tell(1);
  setTimeout(() => {
    tell(2);
    answer(id, { content: [{ type: "text", text: secret }] });
    tell(3);
  }, 100);
}

const open: HttpHostsOptions["open"] = () => ({ upstream: scriptedHere(gossip) });

const callOf = (secret: string, id: unknown) => ({
  id,
  method: "tools/call",
  params: { name: "t", arguments: { secret }, _meta: { progressToken: "token" } },
});

/** Everything that one host gets: of its calls, and of its session where it has one. */
type Hears = (hosting: Hosting, secret: string) => Promise<RawMessage[]>;

const inSession: Hears = async (hosting, secret) => {
  const session = await openSession(hosting);
  // its head may come with its first event
  const stream = fetch(hosting.url, {
    headers: { ...session.headers, accept: "text/event-stream" },
  });
  const answers = await Promise.all([1, 2].map((id) => session.send(callOf(secret, id))));
  const heard = (await Promise.all(answers.map(messagesOf))).flat();
  // the server still talks after its answer
  await new Promise((resolve) => setTimeout(resolve, 100));
  await fetch(hosting.url, { method: "DELETE", headers: session.headers });
  return [...heard, ...(await messagesOf(await stream))];
};

const withoutSession: Hears = async (hosting, secret) => {
  const answers = [1, 2].map((id) => postModern(hosting, callOf(secret, id)));
  return (await Promise.all((await Promise.all(answers)).map(messagesOf))).flat();
};

const about = (messages: RawMessage[], secret: string): RawMessage[] =>
  messages.filter((message) => JSON.stringify(message).includes(secret));

/** Runs two hosts at once that use the same ids and tokens; gives what each heard of itself and of the other. */
async function heardOf(hosting: Hosting, hears: Hears) {
  const [a, b] = await Promise.all([hears(hosting, "secret-a"), hears(hosting, "secret-b")]);
  return {
    own: [about(a, "secret-a"), about(b, "secret-b")],
    others: [...about(a, "secret-b"), ...about(b, "secret-a")],
  };
}

/** One process for all sessions: each of them hears everything. */
function shareOne(): HttpHostsOptions["open"] {
  const listeners = new Set<(message: JSONRPCMessage) => void>();
  let process: Transport | undefined;
  const upstream: Upstream = {
    name: "shared",
    kind: "process",
    open: async (flow): Promise<Transport> => {
      const isFirst = !process;
      const shared = (process ??= await scriptedHere(gossip).open(flow));
      const view: Transport = {
        start: async () => {
          listeners.add((message) => view.onmessage?.(message));
          if (!isFirst) return;
          shared.onmessage = (message) => {
            for (const listen of listeners) listen(message);
          };
          await shared.start();
        },
        send: (message) => shared.send(message),
        close: () => shared.close(),
      };
      return view;
    },
  };
  return () => ({ upstream });
}

test.each([
  ["sessions", inSession],
  ["requests without sessions", withoutSession],
])("two hosts get nothing of each other: %s", async (_name, hears) => {
  const { own, others } = await heardOf(await startHosts(open), hears);
  expect(others).toEqual([]);
  for (const messages of own)
    expect(messages.map(({ id, method }) => method ?? id)).toEqual(
      expect.arrayContaining([1, 2, "notifications/progress"]),
    );
});

test("the check finds a bridge whose sessions share one process", async () => {
  const { others } = await heardOf(await startHosts(shareOne()), inSession);
  expect(others).not.toEqual([]);
});

test("requests at the same time have a process each, later ones take those again", async () => {
  const hosting = await startHosts(open);
  await withoutSession(hosting, "one");
  await withoutSession(hosting, "two");
  expect(hosting.opened).toHaveLength(2);
  // another client, another caller, another level of logs
  const level = { "io.modelcontextprotocol/logLevel": "error" };
  const logged = { ...callOf("three", 1).params, _meta: level };
  const [first] = await messagesOf(
    await postModern(hosting, { ...callOf("three", 1), params: logged }),
  );
  expect(JSON.stringify(first)).toContain("three");
  await messagesOf(await postModern(hosting, callOf("four", 1), { authorization: "Bearer b" }));
  expect(hosting.opened.map(({ caller }) => caller)).toEqual(["", "", "", "Bearer b"]);
});

test("a session is not there for another caller", async () => {
  const hosting = await startHosts(open);
  const { headers } = await openSession(hosting, { authorization: "Bearer a" });
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
  for (const authorization of ["Bearer b", ""]) {
    const asked = { ...headers, authorization };
    const refused = await post(hosting, ping, asked);
    expect(refused.status).toBe(404);
    for (const method of ["GET", "DELETE"]) {
      const other = { ...asked, accept: "text/event-stream" };
      expect((await fetch(hosting.url, { method, headers: other })).status).toBe(404);
    }
  }
  expect((await post(hosting, ping, headers)).status).toBe(200);
  // a bridge that takes all callers for one would let them in
  const twin = await startHosts(open, { caller: () => "" });
  const opened = await openSession(twin, { authorization: "Bearer a" });
  const taken = await post(twin, ping, { ...opened.headers, authorization: "Bearer b" });
  expect(taken.status).toBe(200);
});

test("a host that does not read its answer keeps no other one of the same client waiting", async () => {
  const large = `(message) => {
    if (message.method === "initialize") return start(message);
    if (message.id === undefined) return;
    if (message.method !== "tools/call") return say({ id: message.id, error: { code: -32601, message: "none" } });
    if (message.params.name === "large") {
      const { progressToken } = message.params._meta;
      const text = "x".repeat(8 * 2 ** 20);
      say({ method: "notifications/progress", params: { progressToken, progress: 1, message: text } });
      setTimeout(() => answer(message.id, { content: [{ type: "text", text }] }), 50);
    } else answer(message.id, { content: [] });
  }`;
  const hosting = await startHosts(() => ({ upstream: scripted(large) }));
  const params = { name: "large", _meta: { progressToken: 1 } };
  const unread = await postModern(hosting, { id: 1, method: "tools/call", params });
  await new Promise((resolve) => setTimeout(resolve, 500));
  const small = { id: 2, method: "tools/call", params: { name: "small" } };
  const [answer] = await messagesOf(await postModern(hosting, small));
  expect(answer).toMatchObject({ id: 2, result: { content: [] } });
  expect(hosting.opened).toHaveLength(2);
  expect((await messagesOf(unread)).at(-1)).toMatchObject({ id: 1 });
});

test("a notification without a session reaches no connection of another caller", async () => {
  const telling = `(message) => {
    if (message.method === "initialize") start(message);
    else if (message.method === "example/note") globalThis.noted = true;
    else if (message.method === "tools/call") answer(message.id, { noted: globalThis.noted === true });
    else if (message.id !== undefined) say({ id: message.id, error: { code: -32601, message: "none" } });
  }`;
  const hosting = await startHosts(() => ({ upstream: scripted(telling) }));
  const asked = { id: 1, method: "tools/call", params: { name: "t" } };
  const note = { method: "example/note" };
  const noted = async (authorization: string): Promise<unknown> => {
    const [message] = await messagesOf(await postModern(hosting, asked, { authorization }));
    return message?.["result"];
  };
  expect(await noted("Bearer a")).toMatchObject({ noted: false });
  const sent = await postModern(hosting, { id: undefined, ...note }, { authorization: "Bearer b" });
  expect(sent.status).toBe(202);
  expect(await noted("Bearer a")).toMatchObject({ noted: false });
  // the caller's own one does
  await postModern(hosting, { id: undefined, ...note }, { authorization: "Bearer a" });
  await expect.poll(() => noted("Bearer a")).toMatchObject({ noted: true });
  expect(hosting.opened).toHaveLength(1);
});
