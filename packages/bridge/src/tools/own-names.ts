import type { JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import type { BridgeCalls } from "../messages/hooks.ts";
import { membersOf, type Members } from "../messages/messages.ts";
import { listTools } from "./server-client.ts";
import { toolShape, type ToolName } from "./tool-shapes.ts";

/** The bridge's tools beside those of the server. */
export interface OwnTools {
  /** Which of ours a name means. */
  find(name: unknown, signal: AbortSignal): Promise<ToolName | undefined>;
  /** The answer to `tools/list` with ours at the end of the first page. */
  addTo(request: JSONRPCRequest, response: JSONRPCResponse): Promise<JSONRPCResponse>;
}

/** Adds tools under names that the server does not have. */
export function createOwnTools(
  calls: () => BridgeCalls,
  tools: ReadonlyMap<ToolName, readonly string[]>,
): OwnTools {
  let taken: ReadonlySet<unknown> | undefined;

  /** The server's own tool keeps its name. */
  function nameOf(tool: ToolName): string {
    let name: string = tool;
    while (taken?.has(name)) name = `bridge_${name}`;
    return name;
  }

  const isOurs = (name: string): boolean => [...tools.keys()].some((tool) => name.endsWith(tool));

  return {
    async find(name, signal) {
      if (typeof name !== "string" || !isOurs(name)) return undefined;
      taken ??= namesIn(await listTools(calls(), signal).catch(() => []));
      return [...tools.keys()].find((tool) => nameOf(tool) === name);
    },
    async addTo(request, response) {
      if (membersOf(request.params)["cursor"] !== undefined) return response;
      const result = "result" in response ? membersOf(response.result) : noTools(response, calls());
      if (!result) return response;
      const listed = Array.isArray(result["tools"]) ? (result["tools"] as unknown[]) : [];
      const { nextCursor } = result;
      const others =
        typeof nextCursor === "string"
          ? await listTools(calls(), undefined, nextCursor).catch(() => [])
          : [];
      taken = namesIn([...listed.map(membersOf), ...others]);
      const ours = [...tools].map(([tool, folders]) => ({
        name: nameOf(tool),
        ...toolShape(tool, folders),
      }));
      return { jsonrpc: "2.0", id: request.id, result: { ...result, tools: [...listed, ...ours] } };
    },
  };
}

function namesIn(tools: readonly Members[]): ReadonlySet<unknown> {
  return new Set(tools.map(({ name }) => name));
}

/** The empty list of a server that has no tools. */
function noTools(response: JSONRPCResponse, { hostRevision }: BridgeCalls): Members | undefined {
  if (!("error" in response) || response.error.code !== methodNotFound) return undefined;
  if (hostRevision === "legacy") return {};
  return { resultType: "complete", ttlMs: 0, cacheScope: "private" };
}

const methodNotFound = -32_601;
