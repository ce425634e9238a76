// What programs write for JSON-RPC: a line each. Nothing is met with silence.
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { createHttpUpstream, createStdioHost, runBridge } from "@sluice/bridge";
import { createHttpHosts } from "@sluice/bridge/hosts";
import { expect, onTestFinished, test } from "vitest";
import { bridged, createHost } from "./bridged.ts";
import { startFieldPeer } from "./field-peer.ts";
import { scripted, scriptedHere, type ScriptedMessage } from "./scripted.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** What a host writes as one line, and what it gets: a result of `tools/list`, or the error and id of an answer. */
const hostLines: Readonly<Record<string, readonly [line: string, answers: readonly object[]]>> = {
  "params that are null": [
    '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}',
    [{ id: 1, result: {} }],
  ],
  "params that are []": [
    '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}',
    [{ id: 1, result: {} }],
  ],
  "blanks around the message": [
    ' {"jsonrpc": "2.0", "id": 1, "method": "tools/list"} \r',
    [{ id: 1, result: {} }],
  ],
  "error and result that are null": [
    '{"jsonrpc":"2.0","id":1,"method":"tools/list","result":null,"error":null}',
    [{ id: 1, error: { code: -32_600 } }],
  ],
  "params by position": [
    '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":["a"]}',
    [{ id: 1, error: { code: -32_602 } }],
  ],
  "params that are a text": [
    '{"jsonrpc":"2.0","id":"a","method":"tools/list","params":"a"}',
    [{ id: "a", error: { code: -32_602 } }],
  ],
  "an id that is null": [
    '{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
    [{ id: null, error: { code: -32_600 } }],
  ],
  "an id that is an object": [
    '{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
    [{ id: null, error: { code: -32_600 } }],
  ],
  "no version": ['{"id":1,"method":"tools/list"}', [{ id: 1, error: { code: -32_600 } }]],
  "another version": [
    '{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
    [{ id: 1, error: { code: -32_600 } }],
  ],
  "a method that is a number": [
    '{"jsonrpc":"2.0","id":1,"method":5}',
    [{ id: 1, error: { code: -32_600 } }],
  ],
  "a batch of calls": [
    '[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    [1, 2].map((id) => ({ id, error: { code: -32_600 } })),
  ],
  "a batch of notifications": [
    '[{"jsonrpc":"2.0","method":"notifications/initialized"}]',
    [{ id: null, error: { code: -32_600 } }],
  ],
  "an empty batch": ["[]", [{ id: null, error: { code: -32_600 } }]],
  "a number": ["5", [{ id: null, error: { code: -32_600 } }]],
  "a text": ["Content-Length: 40", [{ id: null, error: { code: -32_700 } }]],
  "half a message": [
    '{"jsonrpc":"2.0","id":7,"method":"tools/list"',
    [{ id: 7, error: { code: -32_700 } }],
  ],
  "a message nested too deep": [
    `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"a":${"[".repeat(200)}${"]".repeat(200)}}}`,
    [{ id: 7, error: { code: -32_700 } }],
  ],
};

/** The server of these tests: it answers what reaches it. */
function answering(): ReturnType<typeof scriptedHere> {
  return scriptedHere((message, { answer, start }) => {
    if (message.method === "initialize") start(message);
    else if (message["id"] !== undefined) answer(message["id"], { tools: [] });
  });
}

const initialize =
  '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}';

test.each(Object.entries(hostLines))(
  "a host over stdio that writes %s gets an answer",
  async (_, [line, answers]) => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const got: ScriptedMessage[] = [];
    output.on("data", (chunk: Buffer) => {
      for (const each of chunk.toString().trim().split("\n")) got.push(JSON.parse(each));
    });
    const ended = runBridge({ host: createStdioHost({ input, output }), upstream: answering() });
    onTestFinished(async () => {
      input.end();
      await ended;
    });
    input.write(`${initialize}\n`);
    await once(output, "data");
    input.write(`${line}\n`);
    await expect.poll(() => got.slice(1).length).toBe(answers.length);
    for (const [at, answer] of answers.entries()) expect(got[at + 1]).toMatchObject(answer);
    // the bridge goes on
    input.write('{"jsonrpc":"2.0","id":99,"method":"ping"}\n');
    await expect.poll(() => got.at(-1)).toMatchObject({ id: 99, result: {} });
  },
);

test.each(Object.entries(hostLines))(
  "a host over HTTP that posts %s gets an answer",
  async (_, [line]) => {
    const hosts = createHttpHosts({ open: () => ({ upstream: answering() }) });
    onTestFinished(() => hosts.close());
    const post = (body: string, headers: Record<string, string> = {}) =>
      hosts.fetch(
        new Request("http://127.0.0.1/mcp", {
          method: "POST",
          headers: {
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
            ...headers,
          },
          body,
        }),
      );
    const opened = await post(
      '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}',
    );
    await opened.text();
    const answer = await post(line, { "mcp-session-id": opened.headers.get("mcp-session-id")! });
    const isAccepted = answer.status === 202;
    const text = await answer.text();
    expect(isAccepted || /"(?:error|result)":/.test(text)).toBe(true);
  },
);

/** What a server answers a call with, by its id, and what its host gets of it. */
const serverAnswers: Readonly<
  Record<string, readonly [text: (id: unknown) => string, outcome: RegExp]>
> = {
  "the id as a text": [
    (id) => `{"jsonrpc":"2.0","id":"${String(id)}","result":{"content":[]}}`,
    /"content":\[\]/,
  ],
  "an error that is null": [
    (id) => `{"jsonrpc":"2.0","id":${String(id)},"result":{"content":[]},"error":null}`,
    /"content":\[\]/,
  ],
  "a result that is null beside an error": [
    (id) =>
      `{"jsonrpc": "2.0", "id": ${String(id)}, "result": null, "error": {"code": -32000, "message": "said"}}`,
    /said/,
  ],
  "an error whose id is null": [
    () => '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"said"}}',
    /said/,
  ],
  "an error without an id": [
    () => '{"jsonrpc":"2.0","error":{"code":-32600,"message":"said"}}',
    /said/,
  ],
  "a result that is null": [
    (id) => `{"jsonrpc": "2.0", "result": null, "id": ${String(id)}}`,
    /cannot be read/,
  ],
  "a result that is a list": [
    (id) => `{"jsonrpc":"2.0","id":${String(id)},"result":[]}`,
    /cannot be read/,
  ],
  "no version": [(id) => `{"id":${String(id)},"result":{"content":[]}}`, /cannot be read/],
  "a code that is a text": [
    (id) => `{"jsonrpc":"2.0","id":${String(id)},"error":{"code":"x","message":"said"}}`,
    /cannot be read/,
  ],
  "a batch": [
    (id) => `[{"jsonrpc":"2.0","id":${String(id)},"result":{"content":[]}}]`,
    /cannot be read/,
  ],
};

/** The result of a call as JSON, or the words of its error. */
function outcomeOf(client: ReturnType<typeof createHost>): Promise<string> {
  return client.callTool({ name: "x" }).then(
    (result) => JSON.stringify(result),
    (fault: Error) => fault.message,
  );
}

test.each(Object.entries(serverAnswers))(
  "a program that answers with %s: the call ends",
  async (_, [text, outcome]) => {
    const upstream = scripted(`(message) => {
    if (message.method === "initialize") return start(message);
    if (message.id === undefined) return;
    const answers = { ${Object.entries({ text })
      .map(([name, make]) => `${name}: ${make.toString()}`)
      .join(",")} };
    process.stdout.write(answers.text(message.id) + "\\n");
  }`);
    const client = createHost("legacy");
    await client.connect(bridged({ upstream }).transport);
    expect(await outcomeOf(client)).toMatch(outcome);
  },
);

test.each(Object.entries(serverAnswers))(
  "a server over HTTP that answers with %s: the call ends",
  async (_, [text, outcome]) => {
    const peer = await startFieldPeer(({ method, id }, response) =>
      method === "tools/call"
        ? response.writeHead(200, { "content-type": "application/json" }).end(text(id))
        : undefined,
    );
    const client = createHost("legacy");
    await client.connect(
      bridged({ upstream: createHttpUpstream({ endpoint: peer.url }) }).transport,
    );
    // the SDK reads these: it takes batches, and refuses other oddities
    expect(await outcomeOf(client)).toMatch(
      new RegExp(`${outcome.source}|No answer from|"content":\\[\\]`),
    );
  },
);

/** Requests of a server that a host cannot be given. */
test.each([
  ["params by position", '"params":[1]', -32_602],
  ["no version", '"params":{}', -32_600],
])("a program that asks with %s gets an answer", async (what, params, code) => {
  const version = what === "no version" ? "" : '"jsonrpc":"2.0",';
  const upstream = scripted(`(message) => {
    if (message.method === "initialize") return start(message);
    if (message.id === "q") return say({ method: "notifications/message", params: { level: "info", data: message.error.code } });
    if (message.method === "tools/list") {
      process.stdout.write('{${version}"id":"q","method":"roots/list",${params}}\\n');
      answer(message.id, { tools: [] });
    }
  }`);
  const client = createHost("legacy");
  const codes: unknown[] = [];
  client.setNotificationHandler(
    "notifications/message",
    ({ params: { data } }) => void codes.push(data),
  );
  await client.connect(bridged({ upstream }).transport);
  await client.listTools().catch(() => {});
  await expect.poll(() => codes).toEqual([code]);
});

test("a host that answers a question with the number as a text is heard", async () => {
  const { transport } = bridged({
    upstream: scriptedHere((message, { say, answer, start }) => {
      if (message.method === "initialize") start(message);
      else if (message.method === "ask") say({ id: 5, method: "roots/list" });
      else if (message["id"] === 5) answer(2, message["result"]);
    }),
  });
  const got: ScriptedMessage[] = [];
  transport.onmessage = (message) => {
    got.push(message);
    if ("method" in message)
      void transport.send({ jsonrpc: "2.0", id: "5", result: { roots: [] } });
  };
  await transport.start();
  await transport.send(JSON.parse(initialize));
  await expect.poll(() => got.length).toBe(1);
  await transport.send({ jsonrpc: "2.0", id: 2, method: "ask" });
  await expect.poll(() => got.at(-1)).toMatchObject({ id: 2, result: { roots: [] } });
});
