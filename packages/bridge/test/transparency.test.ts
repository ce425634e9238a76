import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import type { Client, JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createProcessUpstream, openFileTools, type FileTools } from "@sluice/bridge";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { bridged, createHost } from "./bridged.ts";
import { makeFolders } from "./filing.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

const require = createRequire(import.meta.url);
const programOf = (name: string): string =>
  join(dirname(require.resolve(`@modelcontextprotocol/${name}/package.json`)), "dist", "index.js");

type Command = readonly [string, ...string[]];
interface Call {
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

const tool = (name: string, args: Record<string, unknown> = {}): Call => ({
  method: "tools/call",
  params: { name, arguments: args },
});

/** What is asked of the server of the MCP project that has everything. */
const everything: readonly Call[] = [
  { method: "tools/list" },
  { method: "resources/list" },
  { method: "resources/templates/list" },
  { method: "prompts/list" },
  { method: "ping" },
  tool("echo", { message: "héllo" }),
  tool("echo", { wrong: true }),
  tool("get-sum", { a: 2, b: 40 }),
  tool("get-tiny-image"),
  tool("get-annotated-message", { messageType: "error", includeImage: true }),
  tool("get-structured-content", { location: "Chicago" }),
  tool("get-resource-links", { count: 3 }),
  tool("get-resource-reference", { resourceType: "Text", resourceId: 1 }),
  tool("trigger-long-running-operation", { duration: 0.1, steps: 2 }),
  tool("trigger-sampling-request", { prompt: "p", maxTokens: 5 }),
  tool("trigger-elicitation-request"),
  tool("get-roots-list"),
  tool("no-such-tool"),
  { method: "prompts/get", params: { name: "simple-prompt" } },
  { method: "prompts/get", params: { name: "args-prompt", arguments: { city: "Bern" } } },
  { method: "prompts/get", params: { name: "no-such-prompt" } },
  {
    method: "completion/complete",
    params: {
      ref: { type: "ref/prompt", name: "completable-prompt" },
      argument: { name: "department", value: "E" },
    },
  },
  { method: "resources/read", params: { uri: "demo://resource/dynamic/text/1" } },
  { method: "resources/read", params: { uri: "demo://nothing" } },
  { method: "resources/subscribe", params: { uri: "demo://resource/dynamic/text/1" } },
  { method: "resources/unsubscribe", params: { uri: "demo://resource/dynamic/text/1" } },
  { method: "logging/setLevel", params: { level: "debug" } },
  { method: "example/unknown", params: { odd: [1] } },
];

const filesIn = (folder: string): readonly Call[] => [
  { method: "tools/list" },
  tool("list_allowed_directories"),
  tool("list_directory", { path: folder }),
  tool("read_text_file", { path: join(folder, "a.txt") }),
  tool("write_file", { path: join(folder, "b.txt"), content: "two" }),
  tool("search_files", { path: folder, pattern: "*.txt" }),
  tool("read_text_file", { path: "/etc/passwd" }),
];

const clients = {
  "SDK v1": (root: string): Client => {
    const client = new ClientV1(
      { name: "host", version: "1.0.0" },
      { capabilities: { elicitation: {}, sampling: {}, roots: {} } },
    );
    const made = client as unknown as Client;
    for (const [method, answer] of Object.entries(answersV1(root)))
      client.setRequestHandler(
        z.object({ method: z.literal(method) }) as never,
        () => answer as never,
      );
    return made;
  },
  "SDK v2": (root: string) => createHost("legacy", root),
} as const;

const answersV1 = (root: string) => ({
  "elicitation/create": { action: "accept", content: { name: "Ada" } },
  "sampling/createMessage": {
    model: "m",
    role: "assistant",
    content: { type: "text", text: "sampled" },
  },
  "roots/list": { roots: [{ uri: root }] },
});

/** Runs all calls, one after the other; gives every message that the host got. */
async function record(
  client: Client,
  transport: Transport,
  calls: readonly Call[],
): Promise<string[]> {
  const got: JSONRPCMessage[] = [];
  await client.connect(transport);
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    got.push(message);
    deliver?.(message, extra);
  };
  for (const call of calls)
    await client.request(call as never, z.looseObject({}) as never).catch(() => {});
  await client.close();
  // the server asks for roots when it likes and as often, and counts its requests
  const messages = got.map((message) =>
    normal(isCall(message) ? { ...message, id: "any" } : message),
  );
  return [...new Set(messages)].toSorted();
}

const isCall = (message: JSONRPCMessage): boolean => "method" in message && "id" in message;

/** Without what differs from run to run of the same server: times, and the order of members. */
function normal(message: unknown): string {
  return JSON.stringify(message, (_key, value: unknown) => {
    if (typeof value === "string")
      return value.replaceAll(/\d{1,2}:\d\d:\d\d( [AP]M)?|\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}

async function compare(client: () => Client, [command, ...args]: Command, calls: readonly Call[]) {
  const direct = new StdioClientTransport({ command, args, stderr: "ignore" });
  const through = (tools?: FileTools): Transport => {
    const upstream = createProcessUpstream({ command, args, wrapOutput: tools?.wrapOutput });
    const watched = tools?.watch(upstream) ?? upstream;
    return bridged({ upstream: watched, hooks: tools?.hooks }).transport;
  };
  const { save, send } = makeFolders();
  const server = { kind: "process", name: "server", url: undefined } as const;
  const tools = await openFileTools({ server, saveTo: save, sendFrom: [send] });
  onTestFinished(() => tools.close());
  return {
    direct: await record(client(), direct, calls),
    through: await record(client(), through(), calls),
    withFolders: withoutAdded(await record(client(), through(tools), calls)),
  };
}

/** Messages without the three tools that folders add, which must be there. */
function withoutAdded(lines: readonly string[]): string[] {
  return lines
    .map((line) => {
      const message = JSON.parse(line) as { readonly result?: { tools?: { name: string }[] } };
      const { tools } = message.result ?? {};
      if (!message.result || !tools) return line;
      expect(tools.splice(-3).map(({ name }) => name)).toEqual([
        "save_resource",
        "list_saved",
        "send_file",
      ]);
      return JSON.stringify(message);
    })
    .toSorted();
}

describe.each(Object.entries(clients))("%s", (_name, client) => {
  test("gets the same messages of the server that has everything", async () => {
    const { direct, through, withFolders } = await compare(
      () => client("file:///home"),
      [process.execPath, programOf("server-everything"), "stdio"],
      everything,
    );
    // changes of lists are announced at times of the server's choice
    const isSteady = (message: string): boolean => !message.includes("list_changed");
    expect(through.filter(isSteady)).toEqual(direct.filter(isSteady));
    expect(withFolders.filter(isSteady)).toEqual(direct.filter(isSteady));
    expect(direct.length).toBeGreaterThan(everything.length);
  });

  test("gets the same messages of the server of files", async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "sluice-bridge-")));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "a.txt"), "one");
    const { direct, through, withFolders } = await compare(
      () => client(pathToFileURL(folder).href),
      [process.execPath, programOf("server-filesystem"), folder],
      filesIn(folder),
    );
    // the first run wrote a file that the others list
    const unwritten = (lines: readonly string[]): string[] =>
      lines.map((line) => line.replace(/\\n\[FILE\] b\.txt/g, ""));
    expect(unwritten(through)).toEqual(unwritten(direct));
    expect(unwritten(withFolders)).toEqual(unwritten(direct));
    expect(direct.length).toBeGreaterThanOrEqual(filesIn(folder).length);
  });
});

test("a host of 2026-07-28 gets the same content of the server that has everything", async () => {
  const command = [programOf("server-everything"), "stdio"];
  const contents = async (client: Client, transport: Transport): Promise<unknown[]> => {
    await client.connect(transport);
    const got: unknown[] = [];
    for (const call of everything) {
      if (call.method !== "tools/call") continue;
      const result = await client
        .callTool(call.params as never)
        .catch((error: unknown) => ({ content: String(error) }));
      got.push(normal(result.content));
    }
    await client.close();
    return got;
  };
  const direct = new StdioClientTransport({
    command: process.execPath,
    args: command,
    stderr: "ignore",
  });
  const { transport } = bridged({
    upstream: createProcessUpstream({ command: process.execPath, args: command }),
  });
  const expected = await contents(createHost("legacy"), direct);
  expect(await contents(createHost("modern"), transport)).toEqual(expected);
});
