import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import type { Client, JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { z } from "zod";
import { createHost } from "./bridged.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

const require = createRequire(import.meta.url);
/** File of a program of the MCP project. */
export const programOf = (name: string): string =>
  join(dirname(require.resolve(`@modelcontextprotocol/${name}/package.json`)), "dist", "index.js");

/** A program and its arguments. */
export type Command = readonly [string, ...string[]];
/** A request to send. */
export interface Call {
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

const tool = (name: string, args: Record<string, unknown> = {}): Call => ({
  method: "tools/call",
  params: { name, arguments: args },
});

/** What is asked of the server of the MCP project that has everything. */
export const everything: readonly Call[] = [
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

/** What is asked of its server of files. */
export const filesIn = (folder: string): readonly Call[] => [
  { method: "tools/list" },
  tool("list_allowed_directories"),
  tool("list_directory", { path: folder }),
  tool("read_text_file", { path: join(folder, "a.txt") }),
  tool("write_file", { path: join(folder, "b.txt"), content: "two" }),
  tool("search_files", { path: folder, pattern: "*.txt" }),
  tool("read_text_file", { path: "/etc/passwd" }),
];

/** Clients that answer every question, by their SDK. */
export const clients = {
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
export async function record(
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
export function normal(message: unknown): string {
  return JSON.stringify(message, (_key, value: unknown) => {
    if (typeof value === "string")
      return value.replaceAll(/\d{1,2}:\d\d:\d\d( [AP]M)?|\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}
