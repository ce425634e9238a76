import type { JSONRPCMessage, JSONRPCRequest } from "@modelcontextprotocol/client";
import { isAnswer, isCall, isMembers, membersOf, type Members } from "../messages/messages.ts";
import { envelopeOf } from "../messages/envelope.ts";

/** An argument of a tool that gateways read from a header. */
interface ParamHeader {
  readonly path: readonly string[];
  readonly header: string;
}

const maxTools = 10_000;
const maxDepth = 16;
const tokenPattern = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,200}$/;
const plainPattern = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

/**
 * Headers that repeat arguments of tools for gateways (2026-07-28, `x-mcp-header`). A host that speaks over stdio
 * sends none: the bridge learns them from lists of tools and adds them.
 */
export class ParamHeaders {
  readonly #tools = new Map<string, readonly ParamHeader[]>();

  /** Learns from the server's lists of tools. */
  learn(message: JSONRPCMessage): void {
    if (!isAnswer(message) || !("result" in message)) return;
    const tools: unknown = message.result["tools"];
    if (!Array.isArray(tools)) return;
    for (const tool of tools as unknown[]) {
      const { name, inputSchema } = membersOf(tool);
      if (typeof name !== "string") continue;
      const headers = headersIn(membersOf(inputSchema), []);
      if (headers.length === 0) this.#tools.delete(name);
      else if (this.#tools.size < maxTools) this.#tools.set(name, headers);
    }
  }

  /** Headers of one message; undefined when there are none. */
  headersOf(message: JSONRPCMessage): Readonly<Record<string, string>> | undefined {
    if (!isCall(message) || message.method !== "tools/call" || !envelopeOf(message))
      return undefined;
    return this.#headersOfCall(message);
  }

  #headersOfCall(call: JSONRPCRequest): Readonly<Record<string, string>> | undefined {
    const { name, arguments: given } = membersOf(call.params);
    const declared = this.#tools.get(String(name));
    if (!declared) return undefined;
    const headers: Record<string, string> = {};
    for (const { path, header } of declared) {
      const value = path.reduce<unknown>((node, key) => membersOf(node)[key], given);
      const text = textOf(value);
      if (text !== undefined) headers[`Mcp-Param-${header}`] = encode(text);
    }
    return headers;
  }
}

function headersIn(schema: Members, path: readonly string[]): ParamHeader[] {
  if (path.length > maxDepth) return [];
  return Object.entries(membersOf(schema["properties"])).flatMap(([name, property]) => {
    if (!isMembers(property)) return [];
    const here = [...path, name];
    const header = property["x-mcp-header"];
    const own =
      typeof header === "string" && tokenPattern.test(header) ? [{ path: here, header }] : [];
    return [...own, ...headersIn(property, here)];
  });
}

function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return String(value);
  if (typeof value !== "number" || !Number.isFinite(value)) return undefined;
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : String(value);
}

/** What is no plain field value goes as base64. */
function encode(text: string): string {
  if (plainPattern.test(text) && !(text.startsWith("=?base64?") && text.endsWith("?=")))
    return text;
  return `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`;
}
