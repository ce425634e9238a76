import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { createProcessUpstream, runBridge } from "@sluice/bridge";
import { toNodeHandler } from "@sluice/transport-http/node";
import { expect, onTestFinished, test, vi } from "vitest";
import { startS3StandIn } from "../../storage-s3/test/stand-in/stand-in.ts";
import { describeFailure } from "../src/terminal/failure.ts";
import {
  openServedResults,
  type ServedResults,
  type ServedResultsOptions,
} from "../src/bridge/served-results.ts";

const text = "A line of a large text\n".repeat(10_000);
const source = `
const say = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\\n");
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") say({ id, result: { protocolVersion: params.protocolVersion,
    capabilities: { tools: {} }, serverInfo: { name: "l", version: "1" } } });
  else if (method === "tools/call") say({ id, result: { content: [{ type: "text",
    text: "A line of a large text\\n".repeat(params.arguments.lines) }] } });
  else if (id !== undefined) say({ id, error: { code: -32601, message: "Method not found" } });
});`;

/** Serves links of results, and gives a host behind a bridge that makes them. */
async function serveResults(
  options: Partial<ServedResultsOptions> = {},
): Promise<{ results: ServedResults; client: Client }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const { signal } = new AbortController();
  const results = await openServedResults({ endpoint, isGuarded: false, signal, ...options });
  server.on("request", toNodeHandler(results.handler));
  const links = await results.linksFor({ header: () => undefined });
  const [host, transport] = InMemoryTransport.createLinkedPair();
  const upstream = createProcessUpstream({
    command: process.execPath,
    args: ["-e", source],
    wrapOutput: links.wrapOutput,
    exitMs: 500,
  });
  const running = runBridge({ host, upstream: links.watch(upstream), hooks: links.hooks });
  const client = new Client({ name: "h", version: "1" });
  await client.connect(transport);
  onTestFinished(async () => {
    await client.close();
    await running.catch(() => {});
    await links.close();
    await results.close();
    server.closeAllConnections();
    server.close();
  });
  return { results, client };
}

async function call(client: Client, lines = 10_000): Promise<string> {
  const { content } = await client.callTool({ name: "any", arguments: { lines } });
  return (content[0] as { text: string }).text;
}

async function textBehind(words: string): Promise<string> {
  const [url] = /http\S+/.exec(words) ?? [];
  return (await fetch(url!)).text();
}

test(
  "results are held in memory and leave as links, for hosts with a token and without",
  { tags: "slow" },
  async () => {
    for (const isGuarded of [false, true]) {
      const { client } = await serveResults({ isGuarded });
      expect(await textBehind(await call(client))).toBe(text);
    }
  },
);

test("--inline and --max-held bound what is inline and what is held", async () => {
  const { client } = await serveResults({ inline: 1_000, maxHeld: 300_000 });
  expect(await call(client, 40)).toBe("A line of a large text\n".repeat(40));
  expect(await call(client, 50)).toContain("This content is behind a link");
  await expect(call(client, 20_000)).rejects.toThrow("--results-to");
});

test("--results-to a folder makes it for this user alone, and leaves nothing in it", async () => {
  const root = mkdtempSync(join(tmpdir(), "sluice-results-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const resultsTo = join(root, "results");
  const { client, results } = await serveResults({ resultsTo });
  expect(statSync(resultsTo).mode & 0o777).toBe(0o700);
  const words = await call(client);
  expect(readdirSync(join(resultsTo, "held"))).toHaveLength(1);
  expect(await textBehind(words)).toBe(text);
  await results.close();
  expect(existsSync(join(resultsTo, "held"))).toBe(false);
});

test("--results-to a bucket holds them below its prefix", async () => {
  await using s3 = await startS3StandIn();
  vi.stubEnv("AWS_ACCESS_KEY_ID", s3.credentials.accessKeyId);
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", s3.credentials.secretAccessKey);
  onTestFinished(() => void vi.unstubAllEnvs());
  const resultsTo = `s3://${s3.bucket}/bridge?region=${s3.region}&endpoint=${s3.endpoint}`;
  const { client, results } = await serveResults({ resultsTo });
  expect(await textBehind(await call(client))).toBe(text);
  await results.close();
});

test("an invalid storage is refused with what to write", async () => {
  for (const [resultsTo, words] of [
    ["ftp://a/b", "unknown scheme"],
    ["/etc/hostname", "is not a folder"],
    ["s3://key:secret@bucket", "has credentials in it"],
  ] as const) {
    const { signal } = new AbortController();
    const options = { endpoint: "http://127.0.0.1:1/mcp", isGuarded: false, resultsTo, signal };
    const refusal = await openServedResults(options).catch(describeFailure);
    expect(JSON.stringify(refusal)).toContain(words);
    expect(JSON.stringify(refusal)).not.toContain("secret@");
  }
});
