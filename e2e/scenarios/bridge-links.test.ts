// @module-tag slow
// A bridge of an operator: large results leave as links, and nothing else changes.
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMemoryHold, createStorageHold, openResultLinks } from "@sluice/bridge";
import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test, vi } from "vitest";
import { linkedHost, openOperator, urlIn, type Operator } from "../bed/bridge-operator.ts";
import { hasForeign, runForeign } from "../bed/foreign-program.ts";
import { large, startLargeServer } from "../bed/large-server.ts";

type Client = Awaited<ReturnType<typeof linkedHost>>;

/** The result of the tool, as the host gets it. */
async function give(client: Client, what: string): Promise<{ content: any[]; text: string }> {
  const result = await client.callTool({ name: "give", arguments: { what } });
  const content = result.content as any[];
  return { content, text: content[0].text as string };
}

async function bytesAt(url: string): Promise<Buffer> {
  const response = await fetch(url);
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
}

/** Whether a session of its own finds no room for an image. What an ended session has held goes for others. */
async function hasNoRoom(operator: Operator, behind: URL): Promise<boolean> {
  const client = await linkedHost(operator, behind);
  const refusal = await give(client, "image").then(() => undefined, String);
  await client.close();
  return refusal?.includes("bytes of large results are held") ?? false;
}

const hashOf = (bytes: Uint8Array | string): string =>
  createHash("sha256").update(bytes).digest("hex");

/** A server over stdio whose answer to a call has no end. */
const stallingProgram = `
const say = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\\n");
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") say({ id, result: { protocolVersion: params.protocolVersion,
    capabilities: { tools: {} }, serverInfo: { name: "l", version: "1" } } });
  else if (method === "tools/call") {
    process.stdout.write('{"jsonrpc":"2.0","id":' + id + ',"result":{"content":[{"type":"text","text":"' + "x".repeat(400000));
    setInterval(() => process.stdout.write("drops go on ".repeat(100)), 20);
  } else if (id !== undefined) say({ id, error: { code: -32601, message: "Method not found" } });
});`;

/** A server over stdio that sends large answers to calls that nothing made, before and after the one that was made. */
const unaskedProgram = `
const say = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\\n");
const unasked = (id) => say({ id, result: { content: [{ type: "text", text: "x".repeat(200000) }] } });
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") say({ id, result: { protocolVersion: params.protocolVersion,
    capabilities: { tools: {} }, serverInfo: { name: "l", version: "1" } } });
  else if (method === "tools/call") {
    for (let other = 1000; other < 1010; other++) unasked(other);
    say({ id, result: { content: [{ type: "text", text: "a small answer" }] } });
    for (let other = 1000; other < 1010; other++) unasked(other);
  } else if (id !== undefined) say({ id, error: { code: -32601, message: "Method not found" } });
});`;

for (const revision of ["legacy", "modern"] as const)
  test(`${revision} host: a text of 5 MB becomes a link, in words and as a block, and the link gives it`, async () => {
    const operator = await openOperator();
    const client = await linkedHost(operator, await startLargeServer(), {}, revision);
    const result = await client.callTool({ name: "give", arguments: { what: "text" } });
    expect(JSON.stringify(result).length).toBeLessThan(2_048);
    const [words, block, small] = result.content as any[];
    const url = urlIn(words.text);
    const sha256 = hashOf(large.text);
    expect(words.text).toContain(
      `text.txt, ${Buffer.byteLength(large.text)} bytes, sha-256 ${sha256}`,
    );
    expect(words.text).toContain("within 15 min, no Authorization header");
    expect(words.text).toContain(`curl -fLOJ '${url}'`);
    expect(words.text).toContain('It begins:\nA "line" of text');
    expect(block).toEqual({
      type: "resource_link",
      uri: url,
      name: "text.txt",
      mimeType: "text/plain",
      size: Buffer.byteLength(large.text),
    });
    expect(small).toEqual({ type: "text", text: "small" });
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp\/d\/[\w-]{32}$/);
    expect((await bytesAt(url)).toString()).toBe(large.text);
  });

test("a blob is decoded while it comes, and keeps its URI and its name", async () => {
  const operator = await openOperator();
  const client = await linkedHost(operator, await startLargeServer());
  const result = await client.readResource({ uri: "big://a/blob.bin" });
  const [content] = result.contents as any[];
  expect(content).toMatchObject({ uri: "big://a/blob.bin", mimeType: "text/plain" });
  expect(content.text).toContain(
    `blob.bin, 300000 bytes, x/y, decoded from base64, sha-256 ${hashOf(large.blob)}`,
  );
  expect(result.contents).toHaveLength(1);
  expect(JSON.stringify(result).length).toBeLessThan(2_048);
  expect((await bytesAt(urlIn(content.text))).equals(large.blob)).toBe(true);
});

test("an image is an image behind its link", async () => {
  const operator = await openOperator();
  const client = await linkedHost(operator, await startLargeServer());
  const { content, text } = await give(client, "image");
  expect(content).toMatchObject([
    { type: "text" },
    { type: "resource_link", name: "data.png", mimeType: "image/png", size: 300_000 },
  ]);
  const response = await fetch(urlIn(text));
  expect(response.headers.get("content-type")).toBe("image/png");
  expect(response.headers.get("content-disposition")).toMatch(/^attachment; filename="?data\.png/);
  await response.body?.cancel();
});

test("invalid base64 is stored as text", async () => {
  for (const hold of [createMemoryHold(), createStorageHold({ storage: createMemoryBackend() })]) {
    const operator = await openOperator(hold);
    const client = await linkedHost(operator, await startLargeServer());
    const { text } = await give(client, "almost");
    expect((await bytesAt(urlIn(text))).toString()).toBe(`${large.blob.toString("base64")}!`);
    expect((await hold.storage.list()).objects).toHaveLength(1);
  }
});

test("a held page is no page of the operator's origin: a browser saves it, and runs nothing of it", async () => {
  const operator = await openOperator();
  const client = await linkedHost(operator, await startLargeServer(), {
    options: {
      link: ({ uri }) =>
        operator.sluice.link(uri, {
          caller: {
            authInfo: { token: "t", clientId: "ada", scopes: [] },
            header: () => undefined,
          },
          disposition: "inline",
        }),
    },
  });
  const { content } = await give(client, "page");
  expect(content).toMatchObject([{ type: "text" }, { name: "page.html", mimeType: "text/html" }]);
  const { headers, body } = await fetch(urlIn(content[0].text));
  expect(headers.get("content-type")).toBe("application/octet-stream");
  expect(headers.get("content-disposition")).toMatch(/^attachment/);
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  expect(headers.get("content-security-policy")).toContain("sandbox");
  await body?.cancel();
});

test("a long string in a structure becomes a sentence with its link", async () => {
  const operator = await openOperator();
  const client = await linkedHost(operator, await startLargeServer());
  const result = await client.callTool({ name: "give", arguments: { what: "structured" } });
  const { rows, csv } = result.structuredContent as { rows: number; csv: string };
  expect(rows).toBe(3);
  expect(csv).toMatch(/^Behind the link http/);
  expect((await bytesAt(urlIn(csv))).toString()).toBe(large.text);
  expect(result.content).toEqual([{ type: "text", text: "see the structure" }]);
});

test("each of several results has a link of its own", async () => {
  const operator = await openOperator();
  const client = await linkedHost(operator, await startLargeServer());
  const { content } = await give(client, "many");
  expect(content.map(({ type }) => type)).toEqual(
    Array.from({ length: 4 }, () => ["text", "resource_link"]).flat(),
  );
  const texts = await Promise.all([0, 2, 4, 6].map((at) => bytesAt(urlIn(content[at].text))));
  expect(texts.map((bytes) => bytes.subarray(0, 2).toString())).toEqual(["0x", "1x", "2x", "3x"]);
});

test("small answers pass as they came, byte for byte", async () => {
  const hold = createMemoryHold();
  onTestFinished(() => hold.close());
  const links = await openResultLinks({ hold, link: () => Promise.reject(new Error("no")) });
  onTestFinished(() => links.close());
  const lines = `{"id":1, "jsonrpc":"2.0","result":{"n":1.0,"n":1e400,"s":"\\u0041"}}\n{"jsonrpc":"2.0","method":"x"}\n`;
  async function* source() {
    for (const byte of Buffer.from(lines)) yield Uint8Array.of(byte);
  }
  const given: Uint8Array[] = [];
  for await (const bytes of links.wrapOutput(source())) given.push(bytes);
  expect(Buffer.concat(given).toString()).toBe(lines);
  const body = `${" ".repeat(10)}{"jsonrpc":"2.0","id":1,"result":{"n":-0}}\n\n`;
  const headers = { "content-type": "application/json" };
  const asked = links.wrapFetch(async () => new Response(body, { headers }));
  expect(await (await asked("http://127.0.0.1/")).text()).toBe(body);
});

test("a host of 2025-03-26 gets words alone: it refuses blocks that it does not know", async () => {
  const operator = await openOperator();
  const { InMemoryTransport } = await import("@modelcontextprotocol/client");
  const [inner, transport] = InMemoryTransport.createLinkedPair();
  void operator.run({ transport: inner, behind: await startLargeServer() });
  const answers = new Map<unknown, any>();
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- transports of the SDK have properties only
  transport.onmessage = (message: any) => void answers.set(message.id, message.result);
  await transport.start();
  onTestFinished(() => transport.close());
  const clientInfo = { name: "old", version: "1" };
  const hello = { protocolVersion: "2025-03-26", capabilities: {}, clientInfo };
  await transport.send({ jsonrpc: "2.0", id: 1, method: "initialize", params: hello });
  await vi.waitFor(() => expect(answers.has(1)).toBe(true), 10_000);
  await transport.send({ jsonrpc: "2.0", method: "notifications/initialized" });
  const params = { name: "give", arguments: { what: "text" } };
  await transport.send({ jsonrpc: "2.0", id: 2, method: "tools/call", params });
  await vi.waitFor(() => expect(answers.has(2)).toBe(true), 10_000);
  expect(answers.get(2).content.map(({ type }: any) => type)).toEqual(["text", "text"]);
});

test("links act for the caller of their session: revoking one caller leaves the other's", async () => {
  const operator = await openOperator();
  const behind = await startLargeServer();
  const ada = await linkedHost(operator, behind, { caller: "ada" });
  const bob = await linkedHost(operator, behind, { caller: "bob" });
  const [hers, his] = [
    urlIn((await give(ada, "image")).text),
    urlIn((await give(bob, "image")).text),
  ];
  expect(hers).not.toBe(his);
  // a URL is the permission
  await bytesAt(hers);
  await operator.sluice.revoke({ principal: { issuer: "test", subject: "ada", clientId: "" } });
  expect((await fetch(hers)).status).toBe(404);
  await bytesAt(his);
});

test("without its URL no session opens the result of another one", async () => {
  const operator = await openOperator();
  const behind = await startLargeServer();
  const ada = await linkedHost(operator, behind, { caller: "ada" });
  const bob = await linkedHost(operator, behind, { caller: "bob" });
  const { text } = await give(ada, "image");
  const [held] = (await operator.hold.storage.list()).objects;
  // not even one that knows where it is: all of MCP goes to the server behind
  const uri = `${operator.hold.baseUri}${held!.key}/data.png`;
  await expect(bob.readResource({ uri })).rejects.toThrow("not found");
  expect(text).not.toContain(held!.key);
  const [endpoint, token] = urlIn(text).split("/d/") as [string, string];
  for (const guess of [`/d/${token.slice(1)}A`, `/d/${held!.key}`, `/streams/${token}`, "/d/"])
    expect((await fetch(endpoint + guess)).status).toBe(404);
});

test.each([
  ["memory", () => createMemoryHold({ maxBytes: 900_000 })],
  ["storage", () => createStorageHold({ storage: createMemoryBackend(), maxBytes: 900_000 })],
] as const)(
  "a full %s is an error that says what to do, and links that were given stay whole",
  async (kind, hold) => {
    const operator = await openOperator(hold());
    const client = await linkedHost(operator, await startLargeServer());
    const { text } = await give(client, "image");
    const refusal = await give(client, "text").catch((error: unknown) => error as any);
    expect(refusal.message).toMatch(
      kind === "memory" ? /--max-held, or name a storage with --results-to/ : /raise --max-held/,
    );
    expect(refusal.data).toEqual({ reason: "no_space" });
    expect((await bytesAt(urlIn(text))).equals(large.blob)).toBe(true);
    // what did not fit took no room
    await give(client, "image");
  },
);

test("an answer above the largest size is an error, and holds nothing", async () => {
  const operator = await openOperator();
  const client = await linkedHost(operator, await startLargeServer(), {
    options: { maxResultBytes: 100_000 },
  });
  await expect(give(client, "image")).rejects.toThrow("more than 100000 bytes");
  expect((await operator.hold.storage.list()).objects).toEqual([]);
});

test("answers that no call waits for hold nothing", async () => {
  const operator = await openOperator();
  const client = await linkedHost(operator, {
    command: process.execPath,
    args: ["-e", unaskedProgram],
  });
  const { text } = await give(client, "any");
  expect(text).toBe("a small answer");
  expect((await operator.hold.storage.list()).objects).toEqual([]);
});

test("a link that cannot be made is an error without causes, and holds nothing", async () => {
  const operator = await openOperator();
  const faults: unknown[] = [];
  const client = await linkedHost(operator, await startLargeServer(), {
    options: {
      link: () => Promise.reject(new Error("the password of the store is x")),
      onError: (error) => faults.push(error),
    },
  });
  const refusal = await give(client, "image").catch((error: unknown) => error as any);
  expect(refusal.message).toContain("no link to a large result could be made (internal)");
  expect(JSON.stringify(refusal)).not.toContain("password");
  expect(faults).toHaveLength(1);
  expect((await operator.hold.storage.list()).objects).toEqual([]);
});

test.each(["cancel", "close"])("%s frees at once what is on its way", async (end) => {
  // two of them have no room
  const operator = await openOperator(createMemoryHold({ maxBytes: 900_000 }));
  let isStalled = false;
  const behind = await startLargeServer(() => (isStalled = true));
  const client = await linkedHost(operator, behind);
  const aborting = new AbortController();
  const stalled = client
    .callTool({ name: "give", arguments: { what: "stall" } }, { signal: aborting.signal })
    .catch(() => {});
  await vi.waitFor(() => expect(isStalled).toBe(true), 10_000);
  await expect.poll(() => hasNoRoom(operator, behind)).toBe(true);
  const other = await linkedHost(operator, behind);
  // a call beside it holds nothing of it
  const beside = client
    .callTool({ name: "give", arguments: { what: "stall" } }, { signal: aborting.signal })
    .catch(() => {});
  if (end === "cancel") aborting.abort();
  else await client.close();
  await Promise.all([stalled, beside]);
  await expect
    .poll(() => give(other, "image").then(({ content }) => content.length, String))
    .toBe(2);
});

test("a cancelled call of a program frees what is on its way", async () => {
  const operator = await openOperator(createMemoryHold({ maxBytes: 900_000 }));
  const behind = { command: process.execPath, args: ["-e", stallingProgram] };
  const client = await linkedHost(operator, behind);
  const aborting = new AbortController();
  const stalled = client.callTool({ name: "stall" }, { signal: aborting.signal }).catch(() => {});
  const images = await startLargeServer();
  await expect.poll(() => hasNoRoom(operator, images)).toBe(true);
  const other = await linkedHost(operator, images);
  aborting.abort();
  await stalled;
  await expect
    .poll(() => give(other, "image").then(({ content }) => content.length, String))
    .toBe(2);
});

test("links and what they lead to are over together", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const operator = await openOperator();
  const client = await linkedHost(operator, await startLargeServer());
  const url = urlIn((await give(client, "image")).text);
  await client.close();
  await vi.advanceTimersByTimeAsync(14.9 * 60_000);
  // a link outlives its session
  expect((await bytesAt(url)).equals(large.blob)).toBe(true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect((await fetch(url)).status).toBe(404);
  await vi.advanceTimersByTimeAsync(60_000);
  expect((await operator.hold.storage.list()).objects).toEqual([]);
});

test("curl saves a result under its name, and takes up a broken download", async () => {
  if (!hasForeign("curl")) return;
  const cwd = mkdtempSync(join(tmpdir(), "sluice-curl-"));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  const operator = await openOperator();
  const client = await linkedHost(operator, await startLargeServer());
  const { contents } = await client.readResource({ uri: "big://a/blob.bin" });
  const url = urlIn((contents[0] as { text: string }).text);
  expect(await runForeign("curl", ["-sfLOJ", url], { cwd })).toMatchObject({ code: 0 });
  expect(readdirSync(cwd)).toEqual(["blob.bin"]);
  expect(readFileSync(join(cwd, "blob.bin")).equals(large.blob)).toBe(true);
  await runForeign("curl", ["-sf", "-r", "0-99999", "-o", "part", url], { cwd });
  expect(await runForeign("curl", ["-sf", "-C", "-", "-o", "part", url], { cwd })).toMatchObject({
    code: 0,
  });
  expect(readFileSync(join(cwd, "part")).equals(large.blob)).toBe(true);
});
