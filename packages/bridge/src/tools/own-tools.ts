import type { JSONRPCRequest, JSONRPCResponse } from "@modelcontextprotocol/client";
import { type Members, membersOf } from "../messages/messages.ts";
import type { BridgeCalls } from "../messages/hooks.ts";
import { cursorIn, listTools } from "./server-client.ts";

/** Names of the bridge's tools, before a server has one of them. */
export type ToolName = "save_resource" | "list_saved" | "send_file";

const text = { type: "string" } as const;
const count = { type: "integer", minimum: 0 } as const;

/** The tools as a model sees them. `root` and `roots` are the folders of the user. */
function toolShape(name: ToolName, folders: readonly string[]): Members {
  const below = folders.join(" or ");
  if (name === "save_resource")
    return {
      title: "Save to disk",
      description: `Saves a resource or link of this server, of any size, below ${below}. Replaces nothing. Call again to resume an interrupted save.`,
      inputSchema: {
        type: "object",
        properties: {
          uri: { ...text, description: "URI of a resource, or a download link of the server" },
          path: { ...text, description: "Relative. Default: its name" },
        },
        required: ["uri"],
      },
      outputSchema: {
        type: "object",
        properties: {
          path: text,
          size: count,
          sha256: text,
          verified: { enum: ["digest", "length", "none"] },
          resumed_bytes: count,
        },
        required: ["path", "size", "sha256", "verified", "resumed_bytes"],
      },
      annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
    };
  if (name === "list_saved")
    return {
      title: "List saved files",
      description: `Lists files that were saved below ${below}, and large results that were put there, newest first.`,
      inputSchema: {
        type: "object",
        properties: {
          limit: { type: "integer", minimum: 1, maximum: 1_000, description: "Default: 100" },
          cursor: { ...text, description: "next_cursor of the page before" },
        },
      },
      outputSchema: {
        type: "object",
        properties: {
          files: {
            type: "array",
            items: {
              type: "object",
              properties: {
                path: text,
                size: count,
                kind: { enum: ["saved", "result"] },
                at: { ...text, description: "When it was written" },
                uri: text,
                changed: { type: "boolean" },
              },
              required: ["path", "size", "kind", "at"],
            },
          },
          next_cursor: text,
        },
        required: ["files"],
      },
      annotations: { readOnlyHint: true, openWorldHint: false },
    };
  return {
    title: "Send a file",
    description: `Sends a file from below ${below} to a tool of this server, without its bytes passing here, and gives what that tool says.`,
    inputSchema: {
      type: "object",
      properties: {
        path: { ...text, description: "Relative to the folder" },
        tool: { ...text, description: "Default: the only tool that takes files" },
        argument: { ...text, description: "Place of the file in them, such as files[0].content" },
        as: {
          ...text,
          enum: ["text", "asked"],
          description: "text: for a plain text argument. asked: the tool asks for the file",
        },
        // strict hosts take no object without named members
        arguments: { ...text, description: "Other arguments of the tool, as JSON" },
      },
      required: ["path"],
    },
    outputSchema: {
      type: "object",
      properties: {
        name: text,
        size: count,
        tool: text,
        way: { enum: ["uri", "asked", "url", "base64", "text"] },
        result: {},
      },
      required: ["name", "size", "tool", "way"],
    },
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  };
}

/** The bridge's tools beside those of the server, under names that the server does not have. */
export class OwnTools {
  readonly #calls: () => BridgeCalls;
  readonly #tools: ReadonlyMap<ToolName, readonly string[]>;
  #takenNames: ReadonlySet<unknown> | undefined;

  constructor(calls: () => BridgeCalls, tools: ReadonlyMap<ToolName, readonly string[]>) {
    this.#calls = calls;
    this.#tools = tools;
  }

  /** Which of ours a name means. */
  async find(name: unknown, signal: AbortSignal): Promise<ToolName | undefined> {
    if (typeof name !== "string" || !this.#isOurs(name)) return undefined;
    this.#takenNames ??= namesIn(await listTools(this.#calls(), signal).catch(() => []));
    return [...this.#tools.keys()].find((tool) => this.#nameOf(tool) === name);
  }

  /** The answer to `tools/list` with ours at the end of the first page. */
  async addTo(request: JSONRPCRequest, response: JSONRPCResponse): Promise<JSONRPCResponse> {
    if (membersOf(request.params)["cursor"] !== undefined) return response;
    const result =
      "result" in response ? membersOf(response.result) : noTools(response, this.#calls());
    if (!result) return response;
    const listedTools = Array.isArray(result["tools"]) ? (result["tools"] as unknown[]) : [];
    const cursor = cursorIn(result);
    const others =
      cursor === undefined ? [] : await listTools(this.#calls(), undefined, cursor).catch(() => []);
    this.#takenNames = namesIn([...listedTools.map(membersOf), ...others]);
    const ours = [...this.#tools].map(([tool, folders]) => ({
      name: this.#nameOf(tool),
      ...toolShape(tool, folders),
    }));
    return {
      jsonrpc: "2.0",
      id: request.id,
      result: { ...result, tools: [...listedTools, ...ours] },
    };
  }

  /** The server's own tool keeps its name. */
  #nameOf(tool: ToolName): string {
    let name: string = tool;
    while (this.#takenNames?.has(name)) name = `bridge_${name}`;
    return name;
  }

  #isOurs(name: string): boolean {
    return [...this.#tools.keys()].some((tool) => name.endsWith(tool));
  }
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
