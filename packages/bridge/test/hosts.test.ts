import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { createHttpUpstream } from "@sluice/bridge";
import { createHttpHosts, type OpenedServer } from "@sluice/bridge/hosts";
import { SluiceError } from "@sluice/core";
import { describe, expect, test } from "vitest";
import { createHost } from "./bridged.ts";
import { startHosts, startHostsTo, transportTo } from "./hosting.ts";
import { hung, startLegacyPeer, startModernPeer } from "./peers.ts";
import { messagesOf, openSession, post, postModern, type RawMessage } from "./raw-requests.ts";
import { scripted } from "./scripted.ts";

/** A process that answers `initialize`, and nothing else. */
const quiet = () => ({
  upstream: scripted("(message) => message.params?.clientInfo && start(message)"),
});

const tool = (name: string, id: unknown = 1, rest: RawMessage = {}) => ({
  id,
  method: "tools/call",
  params: { name, arguments: {}, ...rest },
});
const named = (params: unknown, name: string): boolean =>
  (params as { readonly name?: unknown } | undefined)?.name === name;
const resultOf = ([message]: readonly RawMessage[]): RawMessage => message!["result"] as RawMessage;
const errorOf = (messages: readonly RawMessage[]) =>
  messages.at(-1)!["error"] as { code: number; message: string };

test("a client of the SDK v1 answers a question and hears of progress", async () => {
  const peer = await startLegacyPeer();
  const hosting = await startHostsTo(peer.url);
  const client = new ClientV1(
    { name: "v1", version: "1.0.0" },
    { capabilities: { elicitation: {} } },
  );
  client.setRequestHandler(ElicitRequestSchema, () => ({
    action: "accept",
    content: { name: "Ada" },
  }));
  const transport = new TransportV1(hosting.url);
  await client.connect(transport);
  const { content } = await client.callTool({ name: "ask" });
  expect(JSON.stringify(content)).toContain("Ada");
  const progress: number[] = [];
  const onprogress = (update: { progress: number }): void => void progress.push(update.progress);
  await client.callTool({ name: "progress" }, undefined, { onprogress });
  expect(progress).toEqual([1, 2]);
  await transport.terminateSession();
  await expect.poll(() => hosting.closed).toEqual([hosting.opened[0]!.id]);
  await client.close();
});

test("each question goes to the call that it is for, and its answer to that one", async () => {
  const peer = await startLegacyPeer();
  const hosting = await startHostsTo(peer.url);
  const asked = await Promise.all(
    ["a", "b"].map(async (id) =>
      resultOf(await messagesOf(await postModern(hosting, tool("ask", id)))),
    ),
  );
  expect(hosting.opened).toHaveLength(2);
  const goOn = async (result: RawMessage, name: string): Promise<string> => {
    const [key] = Object.keys(result["inputRequests"] as object);
    const inputResponses = { [key!]: { action: "accept", content: { name } } };
    const rest = { inputResponses, requestState: result["requestState"] };
    const answered = await postModern(hosting, tool("ask", name, rest));
    return JSON.stringify(await messagesOf(answered));
  };
  // a request that comes meanwhile gets neither of their connections
  await messagesOf(await postModern(hosting, tool("echo")));
  expect(hosting.opened).toHaveLength(3);
  expect(await goOn(asked[1]!, "Bo")).toContain("Bo");
  expect(await goOn(asked[0]!, "Al")).toContain("Al");
  expect(hosting.opened).toHaveLength(3);
});

test("an answer has the id that the host gave, whatever it is", async () => {
  const hosting = await startHostsTo((await startModernPeer()).url);
  for (const id of ["x", 7, "7", 0]) {
    const [answer] = await messagesOf(await postModern(hosting, tool("echo", id)));
    expect(answer!["id"]).toBe(id);
  }
});

test("a notification without a call goes out on the stream of the session", async () => {
  const peer = await startLegacyPeer();
  const hosting = await startHostsTo(peer.url);
  const { headers } = await openSession(hosting);
  const heard = fetch(hosting.url, { headers: { ...headers, accept: "text/event-stream" } });
  await expect
    .poll(() => {
      peer.change("test://a");
      return Promise.race([heard.then(() => true), new Promise((done) => setTimeout(done, 50))]);
    })
    .toBe(true);
  const reader = (await heard).body!.getReader();
  const { value } = await reader.read();
  expect(Buffer.from(value ?? []).toString()).toContain("notifications/resources/updated");
  await reader.cancel();
});

test("a server request before there is a stream waits for one", { tags: "slow" }, async () => {
  const eager = `(message) => {
    if (message.method === "initialize") start(message);
    else if (message.method === "notifications/initialized") say({ id: "early", method: "roots/list" });
    else if (message.id !== "early") answer(message.id, {});
  }`;
  const hosting = await startHosts(() => ({ upstream: scripted(eager) }));
  const early = { id: "early", method: "roots/list" };
  const listening = await openSession(hosting);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const abort = new AbortController();
  const stream = await fetch(hosting.url, {
    headers: { ...listening.headers, accept: "text/event-stream" },
    signal: abort.signal,
  });
  const { value } = await stream.body!.getReader().read();
  expect(Buffer.from(value ?? []).toString()).toContain(JSON.stringify("early"));
  abort.abort();
  // a host that opens no stream hears of it in its next call
  const calling = await openSession(hosting);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const messages = await messagesOf(await calling.send({ id: 1, method: "ping" }));
  expect(messages).toMatchObject([early, { id: 1 }]);
});

test("a host that closes its request cancels the call, and its connection is not used again", async () => {
  const hosting = await startHostsTo((await startModernPeer()).url);
  await messagesOf(await postModern(hosting, tool("echo")));
  const before = hung.ended;
  const abort = new AbortController();
  const hanging = postModern(hosting, tool("hang"), {}, abort.signal);
  setTimeout(() => abort.abort(), 200);
  await expect(hanging).rejects.toThrow(/abort/);
  await expect.poll(() => hung.ended).toBe(before + 1);
  await expect.poll(() => hosting.closed).toHaveLength(1);
  await messagesOf(await postModern(hosting, tool("echo")));
  expect(hosting.opened).toHaveLength(2);
});

test("arguments that the host repeats in header fields reach the server as the host wrote them", async () => {
  const peer = await startModernPeer();
  const hosting = await startHostsTo(peer.url);
  const fields = { "mcp-param-region": "north", cookie: "secret=1", authorization: "Bearer host" };
  await messagesOf(
    await postModern(hosting, tool("annotated", 1, { arguments: { region: "south" } }), fields),
  );
  expect(peer.headers.at(-1)).toMatchObject({ "mcp-param-region": "north" });
  for (const headers of peer.headers) {
    expect(headers["cookie"]).toBeUndefined();
    expect(headers["authorization"]).toBeUndefined();
  }
});

test("a request that is wrong by itself is refused with the status of 2026-07-28", async () => {
  const peer = await startModernPeer();
  const hosting = await startHostsTo(peer.url);
  const list = { id: 1, method: "tools/list" };
  expect((await postModern(hosting, { id: 1, method: "example/unknown" })).status).toBe(404);
  const before = peer.received.length;
  expect((await postModern(hosting, list, { "mcp-method": "tools/call" })).status).toBe(400);
  expect((await postModern(hosting, tool("a"), { "mcp-name": "b" })).status).toBe(400);
  expect((await postModern(hosting, list, { "content-type": "text/plain" })).status).toBe(415);
  expect((await post(hosting, "{")).status).toBe(400);
  expect((await fetch(hosting.url)).status).toBe(400);
  expect((await fetch(hosting.url, { method: "PUT" })).status).toBe(405);
  const session = { "mcp-session-id": "none" };
  expect((await post(hosting, { jsonrpc: "2.0", ...list }, session)).status).toBe(404);
  expect(peer.received).toHaveLength(before);
});

test("a notification without a session reaches a server whose connection waits, and cancels nothing", async () => {
  const told = `({ id, method, params }) => {
    globalThis.told ??= [];
    if (method === "initialize") start({ id, params });
    else if (method === "tools/call") answer(id, { content: [], told });
    else if (id === undefined) told.push(method);
    else say({ id, error: { code: -32601, message: "no" } });
  }`;
  const hosting = await startHosts(() => ({ upstream: scripted(told) }));
  const call = async () => resultOf(await messagesOf(await postModern(hosting, tool("t"))))["told"];
  const initialized = "notifications/initialized";
  expect(await call()).toEqual([initialized]);
  for (const method of ["example/told", "notifications/cancelled"]) {
    const params = { requestId: 1 };
    expect((await postModern(hosting, { id: undefined, method, params })).status).toBe(202);
  }
  await expect.poll(call).toEqual([initialized, "example/told"]);
  expect(hosting.opened).toHaveLength(1);
});

describe("the end of a session", () => {
  test("reaches the server too if it comes by DELETE, and is final", async () => {
    const peer = await startLegacyPeer();
    const hosting = await startHostsTo(peer.url);
    const { headers, send } = await openSession(hosting);
    const deleted = await fetch(hosting.url, { method: "DELETE", headers });
    expect(deleted.status).toBe(200);
    await expect.poll(() => hosting.closed).toEqual([hosting.opened[0]!.id]);
    expect((await send({ id: 1, method: "ping" })).status).toBe(404);
  });

  test("comes when it was idle, and not while its stream is open", { tags: "slow" }, async () => {
    const hosting = await startHosts(quiet, { sessions: { idleMs: 1_000 } });
    const idle = await openSession(hosting);
    const used = await openSession(hosting);
    const abort = new AbortController();
    const listening = { ...used.headers, accept: "text/event-stream" };
    const stream = fetch(hosting.url, { headers: listening, signal: abort.signal });
    stream.catch(() => {});
    await expect.poll(() => hosting.closed).toEqual([idle.headers["mcp-session-id"]]);
    expect((await idle.send({ id: 1, method: "ping" })).status).toBe(404);
    abort.abort();
    await expect.poll(() => hosting.closed).toHaveLength(2);
  });

  test("comes for all of them when the bridge ends, and waits for their servers", async () => {
    const hosting = await startHostsTo((await startLegacyPeer()).url);
    await openSession(hosting);
    await messagesOf(await postModern(hosting, tool("echo")));
    await hosting.close();
    expect(hosting.closed).toHaveLength(2);
    expect((await postModern(hosting, tool("echo"))).status).toBe(503);
  });

  test("opens no connection to the server if that is being opened", async () => {
    let give!: (opened: OpenedServer) => void;
    const given = new Promise<OpenedServer>((resolve) => (give = resolve));
    const hosting = await startHosts(() => given);
    const opening = openSession(hosting);
    await expect.poll(() => hosting.opened).toHaveLength(1);
    const closing = hosting.close();
    let connections = 0;
    give({
      upstream: {
        name: "late",
        kind: "http",
        open: () => {
          connections++;
          return Promise.reject(new Error("opened after the end"));
        },
      },
    });
    await closing;
    await opening;
    expect(hosting.closed).toHaveLength(1);
    expect(connections).toBe(0);
  });

  test("leaves none behind whose first request was still coming", async () => {
    const hosts = createHttpHosts({
      open: () => {
        throw new Error("opened after the end");
      },
    });
    const body = new TransformStream<Uint8Array, Uint8Array>();
    const writer = body.writable.getWriter();
    const accept = "application/json, text/event-stream";
    const headers = { "content-type": "application/json", accept };
    const init = { method: "POST", headers, body: body.readable, duplex: "half" };
    const answered = hosts.fetch(new Request("http://localhost/mcp", init as RequestInit));
    const params = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "a", version: "1" },
    };
    const message = Buffer.from(
      JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }),
    );
    await writer.write(message.subarray(0, 10));
    await hosts.close();
    await writer.write(message.subarray(10));
    await writer.close();
    expect((await answered).status).toBe(503);
  });
});

describe("limits", () => {
  test("a full bridge ends an idle session for a new one, and refuses when all are in use", async () => {
    const peer = await startLegacyPeer();
    const hosting = await startHostsTo(peer.url, { sessions: { perProcess: 2 } });
    const first = await openSession(hosting);
    const second = await openSession(hosting);
    await openSession(hosting);
    expect((await first.send({ id: 1, method: "ping" })).status).toBe(404);
    const abort = new AbortController();
    const hanging = postModern(hosting, tool("hang"), {}, abort.signal).catch(() => {});
    await expect.poll(async () => (await second.send({ id: 1, method: "ping" })).status).toBe(404);
    const other = postModern(hosting, tool("hang", 2), {}, abort.signal).catch(() => {});
    await expect.poll(() => hosting.opened).toHaveLength(5);
    const refused = await postModern(hosting, tool("echo", 3));
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("10");
    abort.abort();
    await Promise.all([hanging, other]);
  });

  test("a body and the open calls of a session are bounded", async () => {
    const peer = await startLegacyPeer();
    const hosting = await startHostsTo(peer.url, {
      maxRequestBodySize: 10_000,
      limits: { maxOpenCalls: 2 },
    });
    const { send } = await openSession(hosting);
    const large = { id: 1, method: "ping", params: { text: "x".repeat(10_000) } };
    expect((await send(large)).status).toBe(413);
    const hanging = [2, 3].map((id) => send(tool("hang", id)));
    const arrived = (): number =>
      peer.received.filter(({ params }) => named(params, "hang")).length;
    await expect.poll(arrived).toBe(2);
    const refused = await messagesOf(await send(tool("echo", 4)));
    expect(errorOf(refused).message).toMatch(/More than 2 calls are open/);
    for (const id of [2, 3])
      await send({ method: "notifications/cancelled", params: { requestId: id } });
    // a call that was cancelled has no answer
    expect(await (await hanging[0]!).text()).not.toContain("data:");
    expect(resultOf(await messagesOf(await send(tool("echo", 5))))).toBeDefined();
  });

  test("a request has at most 100,000 arrays and objects", async () => {
    const { url } = await startHostsTo((await startLegacyPeer()).url);
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    };
    const answerTo = async (body: string) => {
      const response = await fetch(url, { method: "POST", headers, body });
      return `${response.status} ${await response.text()}`;
    };
    const many = "[],".repeat(100_001);
    expect(await answerTo(`[${many}[]]`)).toMatch(/^400 .*more than 100000 arrays/);
    const nested = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[${many}[]]}}`;
    expect(await answerTo(nested)).toMatch(/^400 .*more than 100000 arrays/);
    // what is in a string counts for nothing
    const text = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"${many}"}}`;
    expect(await answerTo(text)).not.toContain("arrays");
  });

  test.each([0, 1.5, -1, Number.NaN])("%d is not a valid bound", (perProcess) => {
    expect(() => createHttpHosts({ open: quiet, sessions: { perProcess } })).toThrow(RangeError);
  });
});

describe("a server that is away", () => {
  const gone = new URL("http://127.0.0.1:9/mcp");
  const limits = { reconnectMs: 300 };

  test("is named in the answer, in both revisions; the next request tries again", async () => {
    const hosting = await startHostsTo(gone, { limits });
    const away = /cannot reach http:\/\/127\.0\.0\.1:9/;
    await expect(createHost("legacy").connect(transportTo(hosting))).rejects.toThrow(away);
    // a session that could not begin does not count
    await expect.poll(() => hosting.closed).toHaveLength(1);
    for (const id of [1, 2]) {
      const messages = await messagesOf(await postModern(hosting, tool("echo", id)));
      expect(errorOf(messages)).toMatchObject({
        code: -32_000,
        message: expect.stringMatching(away) as string,
      });
    }
    expect(hosting.notes.join("\n")).toMatch(away);
  });

  test("is an error without secrets if it cannot be opened", async () => {
    const secret = new Error("password=1");
    const hosting = await startHosts(() => Promise.reject(secret));
    const answer = await postModern(hosting, tool("echo"));
    expect(answer.status).toBe(502);
    expect(errorOf(await messagesOf(answer)).message).toBe("bridge: the server cannot be opened");
    expect(hosting.notes).toEqual(["password=1"]);
    const told = await startHosts(() => {
      throw new SluiceError("no_space", "bridge: no room for results");
    });
    await expect(createHost("legacy").connect(transportTo(told))).rejects.toThrow(/no room/);
  });

  test("has its calls answered in the middle of a session, and the host begins anew", async () => {
    const peer = await startLegacyPeer();
    const hosting = await startHosts(
      () => ({ upstream: createHttpUpstream({ endpoint: peer.url }) }),
      {
        limits,
      },
    );
    const { send } = await openSession(hosting);
    await peer.stop();
    const answer = await send(tool("echo"));
    expect(errorOf(await messagesOf(answer)).message).toMatch(/No answer from http:\/\/127/);
    const again = await startLegacyPeer(peer.port);
    const fresh = await openSession(hosting);
    expect(resultOf(await messagesOf(await fresh.send(tool("echo"))))).toBeDefined();
    expect(again.received.length).toBeGreaterThan(0);
  });
});
