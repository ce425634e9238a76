// What hosts send for arguments that their model has not named, and what strict hosts take as the schema of a tool.
// Every tool of ours is in both tables: one that is new fails here until its row is there.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { McpServer } from "@modelcontextprotocol/server";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport as InMemoryTransportV1 } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { createSluice, type Sluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createUploads, type Uploads } from "@sluice/uploads";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { hostOf } from "../../packages/bridge/test/filing.ts";
import { serveHere } from "../../packages/cli/test/run-here.ts";
import type { Served } from "../../packages/cli/test/sluice.ts";

interface ListedTool {
  readonly name: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

interface ToolHost {
  listTools(): Promise<{ readonly tools: readonly ListedTool[] }>;
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<any>;
}

const ours = new Set<string>();
let root = "";
let served: Served;
let command: ToolHost;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "sluice-arguments-"));
  const [files, inbox, out, save, send] = ["files", "inbox", "out", "save", "send"].map((name) => {
    const folder = join(root, name);
    mkdirSync(folder);
    return folder;
  }) as [string, string, string, string, string];
  writeFileSync(join(files, "a.txt"), "one\n");
  writeFileSync(join(send, "b.txt"), "two\n");
  served = await serveHere(files, ["--uploads", inbox, "--save-to", out]);
  const atEnd = (end: () => unknown): void => void ends.push(end);
  // the tools of the command, and behind them those of the bridge
  const options = { saveTo: save, sendFrom: [send] };
  command = await hostOf(new URL(served.url), options, "legacy", atEnd);
});
const ends: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of ends.toReversed()) await end();
  await served.end();
  rmSync(root, { recursive: true });
});

/** Tools of authors: the pair for uploads, and one that asks. */
function registerUploadTools<Mcp extends McpServer | McpServerV1>(
  mcp: Mcp,
  sluice: Sluice,
  uploads: Uploads,
): Mcp {
  uploads.attach(mcp);
  uploads.registerTool(
    mcp,
    "count_lines",
    {
      message: "Which text?",
      fields: { text: { type: "file" } },
      inputSchema: z.object({ unit: z.string() }),
    },
    () => "counted",
  );
  return sluice.attach(mcp, { tools: true });
}

function createDesk() {
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.txt": "one\n" }),
    baseUri: "files://demo/",
    links: {},
    onWarning() {},
  });
  const uploads = createUploads(sluice, {
    storage: createMemoryBackend(),
    scan: "none",
  });
  return { sluice, uploads };
}

const authors = {
  async "SDK v2"(): Promise<ToolHost> {
    const { sluice, uploads } = createDesk();
    const mcp = registerUploadTools(new McpServer({ name: "desk", version: "1" }), sluice, uploads);
    const client = new Client({ name: "host", version: "1" });
    const [near, far] = InMemoryTransport.createLinkedPair();
    await Promise.all([mcp.connect(far), client.connect(near)]);
    onTestFinished(() => client.close());
    return client;
  },
  async "SDK v1"(): Promise<ToolHost> {
    const { sluice, uploads } = createDesk();
    const mcp = registerUploadTools(
      new McpServerV1({ name: "desk", version: "1" }),
      sluice,
      uploads,
    );
    const client = new ClientV1({ name: "host", version: "1" });
    const [near, far] = InMemoryTransportV1.createLinkedPair();
    await Promise.all([mcp.connect(far), client.connect(near)]);
    onTestFinished(() => client.close());
    return client;
  },
} as const;

/** Arguments that every call needs. */
const ofCommand: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  list_files: {},
  read_file: { uri: "files://local/a.txt" },
  stat_file: { uri: "files://local/a.txt" },
  get_download_link: { uri: "files://local/a.txt" },
  save_file: {},
  save_to: { uri: "files://local/a.txt" },
  save_resource: { uri: "files://local/a.txt" },
  list_saved: {},
  send_file: { path: "b.txt" },
};
const ofAuthors: typeof ofCommand = {
  list_files: {},
  read_file: { uri: "files://demo/a.txt" },
  stat_file: { uri: "files://demo/a.txt" },
  get_download_link: { uri: "files://demo/a.txt" },
  request_upload: {},
  check_upload: { upload_id: "of no upload" },
  count_lines: { unit: "lines" },
};

/** A result without what is random, or counts what was there before. */
function masked(result: { isError?: boolean; content: unknown[] }): unknown {
  const text = JSON.stringify([result.isError ?? false, result.content])
    .replaceAll(/[\w-]{22,}/g, "ID")
    .replaceAll(/\/(save|out|send|inbox)\/[^"\s,]+/g, "PLACE")
    .replaceAll(/ \(\d+\)|; the name was taken/g, "");
  return JSON.parse(text);
}

async function callAsAbsent(host: ToolHost, name: string, required: Record<string, unknown>) {
  const { tools } = await host.listTools();
  const { inputSchema } = tools.find((tool) => tool.name === name)!;
  const optional = Object.keys(inputSchema["properties"] ?? {}).filter((key) => !(key in required));
  expect((inputSchema["required"] as string[] | undefined) ?? []).toEqual(Object.keys(required));
  const call = async (more: Record<string, unknown>) => {
    const result = await host.callTool({ name, arguments: { ...required, ...more } });
    // else the next call finds it
    rmSync(join(root, "save", "a.txt"), { force: true });
    return masked(result);
  };
  const filled = (value: null | "") =>
    call(Object.fromEntries(optional.map((key) => [key, value])));
  return { plain: await call({}), withNull: await filled(null), withEmpty: await filled("") };
}

test.each(Object.entries(ofCommand))(
  "%s of the command or the bridge: null and an empty text are absent arguments",
  async (name, required) => {
    const { plain, withNull, withEmpty } = await callAsAbsent(command, name, required);
    expect(withNull).toEqual(plain);
    expect(withEmpty).toEqual(plain);
    expect(plain).toMatchObject([name === "save_file", expect.anything()]);
  },
);

for (const [sdk, connect] of Object.entries(authors))
  test.each(Object.entries(ofAuthors))(
    `%s of a server of ${sdk}: null and an empty text are absent arguments`,
    async (name, required) => {
      const { plain, withNull, withEmpty } = await callAsAbsent(await connect(), name, required);
      expect(withNull).toEqual(plain);
      expect(withEmpty).toEqual(plain);
      // a server in this process takes no files
      const isRefused = name === "check_upload" || name === "count_lines";
      expect(plain).toMatchObject([isRefused, expect.anything()]);
    },
  );

/** Keywords that both the Gemini API and strict mode of OpenAI take, at every level of a function's parameters. */
const taken: ReadonlySet<string> = new Set([
  "type",
  "title",
  "description",
  "enum",
  "properties",
  "required",
  "items",
  "minItems",
  "maxItems",
  "minimum",
  "maximum",
  "minLength",
  "maxLength",
]);
const types: ReadonlySet<unknown> = new Set([
  "object",
  "string",
  "number",
  "integer",
  "boolean",
  "array",
]);
/** What SEP-2631 says that the URI of a file has, by which its clients find the argument. */
const ofFiles: ReadonlySet<string> = new Set(["format", "x-mcp-file"]);

/** What a strict host refuses, with its place. */
function refused(schema: unknown, place: string): string[] {
  const members = schema as Record<string, any>;
  const isFile = members["x-mcp-file"] !== undefined && members["format"] === "uri";
  const { type, properties = {}, items, enum: values = [] } = members;
  const isEmpty = type === "object" && Object.keys(properties).length === 0;
  return [
    ...Object.keys(members)
      .filter((key) => !taken.has(key) && !(isFile && ofFiles.has(key)))
      .map((key) => `${place}: ${key}`),
    ...(types.has(type) ? [] : [`${place}: type ${JSON.stringify(type)}`]),
    // both want the members of an object
    ...(isEmpty ? [`${place}: an object without members`] : []),
    ...(values.every((value: unknown) => typeof value === "string") ? [] : [`${place}: enum`]),
    ...Object.entries(properties).flatMap(([key, value]) => refused(value, `${place}.${key}`)),
    ...(type === "array" ? refused(items ?? {}, `${place}[]`) : []),
  ];
}

test("the schemas of all our tools are in the subset that Gemini and OpenAI take", async () => {
  const hosts = [command, await authors["SDK v2"](), await authors["SDK v1"]()];
  const lists = await Promise.all(hosts.map(async (host) => (await host.listTools()).tools));
  const found = lists.flat().flatMap(({ name, inputSchema }) => {
    ours.add(name);
    // the SDK of version 1 closes no object, and hosts do so themselves
    return refused(inputSchema, name);
  });
  expect(found).toEqual([]);
  // none is left out of the tables above
  expect([...ours].toSorted()).toEqual(
    [...new Set([...Object.keys(ofCommand), ...Object.keys(ofAuthors)])].toSorted(),
  );
});

test.each([
  ["exclusiveMinimum", { type: "integer", exclusiveMinimum: 0 }],
  ["anyOf at the top of an argument", { anyOf: [{ type: "string" }, { type: "null" }] }],
  ["a format", { type: "string", format: "uri" }],
  ["a list of types", { type: ["string", "null"] }],
  ["an object without members", { type: "object" }],
  ["an array without items", { type: "array" }],
  ["numbers to choose from", { type: "number", enum: [1, 2] }],
])("the check of schemas sees %s", (_what, argument) => {
  expect(refused({ type: "object", properties: { argument } }, "tool")).not.toEqual([]);
});
