// Servers that take a call and give no answer to it that can be read.
import { createHttpUpstream } from "@sluice/bridge";
import { expect, onTestFinished, test, vi } from "vitest";
import { bridged, createHost } from "./bridged.ts";
import { handWritten, hostOf } from "./filing.ts";
import { scripted } from "./scripted.ts";

const deep = `${"[".repeat(200)}${"]".repeat(200)}`;
const result = (id: unknown, value = "{}") =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[],"structuredContent":{"v":${value}}}}`;

/** What a server says to a call, as the text of its answer. */
const answers: Record<string, (id: unknown) => string> = {
  "an empty batch": () => "[]",
  "a batch of other answers": () => `[${result(12_345)}]`,
  "an answer to another call": () => result(12_345),
};

async function callAt(url: URL): Promise<unknown> {
  const { transport } = bridged({ upstream: createHttpUpstream({ endpoint: url }) });
  const client = createHost("legacy");
  await client.connect(transport);
  return client.callTool({ name: "x" }).catch((error: Error) => error.message);
}

test.each(Object.entries(answers))("%s over HTTP is an error for the call", async (_what, text) => {
  const url = await handWritten(({ id, method }, response) => {
    if (method === "tools/call")
      response.writeHead(200, { "content-type": "application/json" }).end(text(id));
    return undefined;
  });
  expect(await callAt(url)).toContain("No answer from");
});

const json = "application/json";
const events = "text/event-stream";
const foreign = "SECRET of 10.0.0.7";
const notJsonRpc = "is not a message of JSON-RPC";

test.each([
  ["a page", "text/html; charset=utf-8", `<h1>${foreign}</h1>`, "has the type text/html"],
  ["a page called JSON", json, `<h1>${foreign}</h1>`, "is not JSON"],
  ["JSON of another kind", json, JSON.stringify({ error: foreign, [foreign]: 1 }), notJsonRpc],
  ["a batch of others", json, JSON.stringify([{ [foreign]: 1 }, foreign]), notJsonRpc],
  ["an event of another kind", events, `data: {"${foreign}":1}\n\n`, notJsonRpc],
  ["an event of text", events, `data: ${foreign}\n\n`, "is not JSON"],
  ["an invalid type", `${foreign}; a=b`, foreign, "has no media type"],
])(
  "%s over HTTP is reported in one sentence, without a word of it",
  async (_, type, body, words) => {
    const url = await handWritten(({ method }, response) => {
      if (method === "tools/call") response.writeHead(200, { "content-type": type }).end(body);
      return undefined;
    });
    const said = await callAt(url);
    expect(said).toContain(`what it sent ${words}`);
    expect(said).toContain("; check that the URL is that of its MCP endpoint");
    expect(said).not.toMatch(/SECRET|invalid_union|Unexpected|\n/);
    expect(String(said).length).toBeLessThan(300);
  },
);

/** Arrays that take 3 MB, and a parser as long as 100 MB of text. */
const wide = `[${"[],".repeat(1_000_000)}[]]`;
const tooWide = "more than 250000 arrays and objects";

test.each([
  ["JSON", json, (text: string) => text],
  ["an event", events, (text: string) => `data: ${text}\n\n`],
  ["an event behind a quote", events, (text: string) => `id: "\ndata: ${text}\n\n`],
])(
  "an answer of a million arrays, as %s, is an error for the call alone",
  async (_, type, framed) => {
    let value = wide;
    const url = await handWritten(({ id, method }, response) => {
      if (method !== "tools/call") return undefined;
      response.writeHead(200, { "content-type": type }).end(framed(result(id, value)));
      return undefined;
    });
    const { transport } = bridged({ upstream: createHttpUpstream({ endpoint: url }) });
    const client = createHost("legacy");
    await client.connect(transport);
    await expect(client.callTool({ name: "x" })).rejects.toThrow(tooWide);
    // the twin: as many in a string, and fewer of them
    value = `["${"[],".repeat(1_000_000)}",${"[],".repeat(200_000)}[]]`;
    expect(await client.callTool({ name: "x" })).toMatchObject({ structuredContent: {} });
  },
);

test("an answer of a million arrays with a long text is parsed by no part of the bridge", async () => {
  const parse = vi.spyOn(JSON, "parse");
  onTestFinished(() => parse.mockRestore());
  const url = await handWritten(({ id, method }, response) => {
    if (method !== "tools/call") return undefined;
    const text = result(id, `["${"x".repeat(200_000)}",${wide}]`);
    response.writeHead(200, { "content-type": json }).end(text);
    return undefined;
  });
  const client = await hostOf(url);
  await expect(client.callTool({ name: "x" })).rejects.toThrow(tooWide);
  const longest = Math.max(...parse.mock.calls.map(([text]) => text.length));
  expect(longest).toBeLessThan(100_000);
});

test("a 202 over HTTP is an error for the call, and a batch with its response is not", async () => {
  let given: (id: unknown) => string | undefined = () => undefined;
  const url = await handWritten(({ id, method }, response) => {
    if (method !== "tools/call") return undefined;
    const text = given(id);
    if (text === undefined) response.writeHead(202).end();
    else response.writeHead(200, { "content-type": "application/json" }).end(text);
    return undefined;
  });
  expect(await callAt(url)).toContain("No answer from");
  given = (id) => `[${result(id)}]`;
  expect(await callAt(url)).toMatchObject({ structuredContent: { v: {} } });
});

test.each([
  ["a batch", "`[${text}]`", "{}"],
  ["nested deeper than 128 levels", "text", deep],
  ["of a million arrays", "text.replace('DEEP', '[' + '[],'.repeat(1e6) + '[]]')", "DEEP"],
])("a response from a program that is %s is an error for the call", async (_what, line, value) => {
  const upstream = scripted(`(message) => {
    if (message.method === "initialize") return start(message);
    if (message.id === undefined) return;
    const text = ${JSON.stringify(result("ID", value))}.replace('"ID"', JSON.stringify(message.id));
    process.stdout.write(${line} + "\\n");
  }`);
  const { transport } = bridged({ upstream });
  const client = createHost("legacy");
  await client.connect(transport);
  await expect(client.callTool({ name: "x" })).rejects.toThrow("cannot be read");
});
