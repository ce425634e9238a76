// Clients compare what a tool answers with the schema that it declared: every answer fits, whatever was asked for.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, onTestFinished, test } from "vitest";
import { covering } from "../bed/covering.ts";
import { startLinkSite } from "../bed/links.ts";
import { baseUri } from "../bed/site.ts";

const files = {
  "a.txt": "one\ntwo\n",
  "empty.txt": "",
  "b.bin": new Uint8Array([0, 1]),
  "big.txt": "x".repeat(300_000),
  "wide.txt": "😀".repeat(30_000),
  "nul.txt": "a\0b",
  "latin.txt": new Uint8Array([0x61, 0xff, 0xfe]),
  "data.json": "{}",
  "in/a folder.png": new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
};
const ranges = [
  "bytes 0-0",
  "bytes 5-",
  "bytes 999999-",
  "bytes -5",
  "bytes 0-99999999999999999999",
  "lines 1-1",
  "lines 0-1",
  "lines 9999-",
  "lines 3-2",
  "",
  "x".repeat(9_999),
];
type Call = readonly [name: string, args: Record<string, string>];
const calls: readonly Call[] = [
  ["list_files", {}],
  ["list_files", { folder: "elsewhere" }],
  ["list_files", { filter: "*.txt" }],
  ["list_files", { cursor: "made-up" }],
  ...[...Object.keys(files), "none.txt", "%00", ""].flatMap((name): Call[] => [
    ["read_file", { uri: baseUri + name }],
    ["stat_file", { uri: baseUri + name }],
    ["get_download_link", { uri: baseUri + name }],
  ]),
  ...ranges.map((range): Call => ["read_file", { uri: `${baseUri}big.txt`, range }]),
  ["read_file", { uri: `${baseUri}a.txt`, etag: "another" }],
  ["read_file", { uri: `${baseUri}latin.txt`, encoding: "latin1" }],
  ["read_file", { uri: "A folder.png" }],
];

const clients = {
  "SDK 1": async (url: URL) => {
    const client = new ClientV1({ name: "test", version: "1" });
    await client.connect(new TransportV1(url));
    return client;
  },
  "SDK 2": async (url: URL) => {
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(url));
    return client;
  },
};

test.each(
  covering("tool schemas, clients and links", Object.entries(clients), [
    { links: {} },
    { links: undefined as never },
  ] as const).map(
    ([[sdk, connect], sluice]) =>
      [sdk, sluice.links ? "with" : "without", connect, sluice] as const,
  ),
)("%s takes every answer of the tools %s links", async (_sdk, _links, connect, sluice) => {
  await using site = await startLinkSite({ files, sluice });
  const client = await connect(new URL(site.url));
  onTestFinished(() => client.close());
  // what it compares with
  const { tools } = await client.listTools();
  const known = calls.filter(([name]) => tools.some((tool) => tool.name === name));
  const failed: string[] = [];
  for (const [name, args] of known) {
    const { isError = false } = await client.callTool({ name, arguments: args });
    if (isError) failed.push(name);
  }
  expect(known.length).toBeGreaterThan(20);
  // both kinds of answers were there
  expect(failed.length).toBeGreaterThan(5);
  expect(failed.length).toBeLessThan(known.length - 5);
});
