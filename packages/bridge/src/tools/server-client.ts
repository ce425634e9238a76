import { SluiceError, type RequestingClient } from "@sluice/client";
import { withDownloads } from "@sluice/client/internal";
import { loopbackOf } from "../confine/named-loopback.ts";
import type { BridgeCalls } from "../messages/hooks.ts";
import { membersOf, type Members } from "../messages/messages.ts";

/** A JSON-RPC error, as an SDK client throws it. */
class RpcError extends Error {
  override readonly name = "RpcError";
  readonly code: number;
  readonly data: unknown;

  constructor({ code, message, data }: { code: number; message: string; data?: unknown }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Calls the server; an error becomes a rejection. */
export async function callServer(
  calls: BridgeCalls,
  method: string,
  params: Members,
  signal: AbortSignal | undefined,
): Promise<Members> {
  const answer = await calls.callServer(method, params, signal);
  if (answer.error) throw new RpcError(answer.error);
  return answer.result;
}

/**
 * The server behind as the functions of `@sluice/client` call it. Over HTTP the `fetch` of the connection carries bytes.
 * A process has no address of its own: the one on this machine that its answer to this very request has counts as its own.
 */
export function createServerClient(calls: BridgeCalls, kind: "http" | "process"): RequestingClient {
  return {
    async request({ method, params }, schema, options) {
      const signal = (options as { signal?: AbortSignal } | undefined)?.signal;
      if (kind === "http") return parse(schema, await callServer(calls, method, params, signal));
      let result: Members = {};
      const request = { jsonrpc: "2.0", id: 0, method, params };
      await sendFrom(placeholder, request, async (message) => {
        const { params: sent } = message as { readonly params: Members };
        result = await callServer(calls, method, sent, signal);
      });
      const loopback = loopbackOf(result["downloadUrl"]);
      if (loopback) await sendFrom(loopback, request, async () => {});
      return parse(schema, result);
    },
  };
}

/** The address of a server that has none: a reserved name (RFC 2606 §2). */
export const placeholder: URL = new URL("https://process.invalid/");

async function sendFrom(
  origin: URL,
  request: object,
  send: (message: unknown) => Promise<void>,
): Promise<void> {
  await withDownloads({ send }, () => ({ origin })).send(request);
}

function parse(
  schema: { safeParse(value: unknown): { success: boolean } },
  value: unknown,
): unknown {
  if (schema.safeParse(value).success) return value;
  throw new SluiceError("protocol", "bridge: the server's answer is malformed");
}

/** Every tool of the server, at most 5,000. */
export async function listTools(
  calls: BridgeCalls,
  signal: AbortSignal | undefined,
  cursor?: unknown,
): Promise<readonly Members[]> {
  const tools = new Map<unknown, Members>();
  let next = cursor;
  for (let page = 0; page < maxPages && tools.size < maxTools; page++) {
    const result = await callServer(
      calls,
      "tools/list",
      next === undefined ? {} : { cursor: next },
      signal,
    );
    const { tools: listed } = result;
    const listedTools = Array.isArray(listed) ? (listed as unknown[]).map(membersOf) : [];
    for (const tool of listedTools) tools.set(tool["name"], tool);
    const following = cursorIn(result);
    // some servers give one cursor and one page for ever
    if (following === undefined || following === next) break;
    next = following;
  }
  return [...tools.values()];
}

/** The cursor of the next page; undefined on the last one, for which some servers write "" or `null`. */
export function cursorIn({ nextCursor }: Members): string | undefined {
  return typeof nextCursor === "string" && nextCursor !== "" ? nextCursor : undefined;
}

const maxPages = 100;
const maxTools = 5_000;
