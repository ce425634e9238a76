import { isMembers, membersOf, type Members } from "../../messages/messages.ts";
import { SERVER_INFO_KEY } from "../../messages/envelope.ts";

/** Revisions with `initialize`, newest first. */
export const legacyRevisions = [
  "2025-11-25",
  "2025-06-18",
  "2025-03-26",
  "2024-11-05",
  "2024-10-07",
] as const;

/** The result of `initialize` that says what a result of `server/discover` says. */
export function initializeResult(discovered: Members, requested: unknown): Members {
  const meta = membersOf(discovered["_meta"]);
  const serverInfo = meta[SERVER_INFO_KEY] ?? discovered["serverInfo"];
  const result: Record<string, unknown> = {
    protocolVersion: legacyRevisions.find((known) => known === requested) ?? legacyRevisions[0],
    capabilities: membersOf(discovered["capabilities"]),
    serverInfo: isMembers(serverInfo) ? serverInfo : { name: "server", version: "unknown" },
  };
  if (typeof discovered["instructions"] === "string")
    result["instructions"] = discovered["instructions"];
  return result;
}

/**
 * A result of 2026-07-28 as older revisions have it: no `resultType`, and output of tools that is not an object stands
 * in an object, as the official SDKs put it there (SEP-2106 §4.3).
 */
export function legacyResult(method: string, result: Members): Members {
  const { resultType: _dropped, ...rest } = result;
  if (method === "tools/list" && Array.isArray(rest["tools"]))
    return { ...rest, tools: (rest["tools"] as unknown[]).map(legacyTool) };
  return rest;
}

/** The result of a tool whose output schema is not that of an object, or whose output is not. */
export function legacyOutput(result: Members, isWrapped: boolean): Members {
  const output = result["structuredContent"];
  if (output === undefined || (isMembers(output) && !isWrapped)) return result;
  const content = Array.isArray(result["content"]) ? (result["content"] as unknown[]) : [];
  const hasText = content.some((block) => membersOf(block)["type"] === "text");
  const text = { type: "text", text: JSON.stringify(output) };
  return {
    ...result,
    content: hasText || isMembers(output) ? content : [...content, text],
    structuredContent: { result: output },
  };
}

/** True for a tool whose output stands in an object in older revisions. */
export function isWrappedTool(tool: unknown): boolean {
  const schema = membersOf(tool)["outputSchema"];
  return isMembers(schema) && schema["type"] !== "object";
}

function legacyTool(tool: unknown): unknown {
  if (!isMembers(tool) || !isWrappedTool(tool)) return tool;
  const { $schema, ...schema } = membersOf(tool["outputSchema"]);
  const wrapped: Record<string, unknown> = {
    type: "object",
    properties: { result: movedRefs(schema) },
    required: ["result"],
  };
  if ($schema !== undefined) wrapped["$schema"] = $schema;
  return { ...tool, outputSchema: wrapped };
}

/** The schema with its references to itself where it stands now. */
function movedRefs(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(movedRefs);
  if (!isMembers(node)) return node;
  const moved: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(node)) {
    const isRef = (name === "$ref" || name === "$dynamicRef") && typeof value === "string";
    if (isRef && (value === "#" || value.startsWith("#/")))
      moved[name] = `#/properties/result${value.slice(1)}`;
    else
      moved[name] =
        name === "const" || name === "enum" || name === "default" ? value : movedRefs(value);
  }
  return moved;
}
