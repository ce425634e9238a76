import type { CallToolResult, McpServer, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { advised } from "../faults/advice.ts";
import { findResource } from "../resources/find-resource.ts";
import { withNearest } from "../resources/near-names.ts";
import type { Mounts } from "../storage/mounts.ts";
import type { ToolParts } from "./tool-parts.ts";

/** A call of a tool, and what its model named. */
export interface NamedCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  readonly given: string;
}

/**
 * Runs a tool for the file that a model names: as it is given, else as it is found without doubt, which the result says. Rejects
 * with the names that may be meant.
 */
export async function callNamed(
  parts: Pick<ToolParts, "calls" | "mounts">,
  call: NamedCall,
  run: (uri: string) => Promise<CallToolResult>,
): Promise<CallToolResult> {
  const { given } = call;
  try {
    return await run(given);
  } catch (error) {
    if (!isUnknownName(parts.mounts, given, error)) throw error;
    const { found, nearest } = await findResource(parts, call, given);
    if (nearest.length > 0)
      throw advised("not_found", withNearest("No such resource", nearest), error);
    if (found === undefined || found === given) throw error;
    const { content, ...result } = await run(found).catch((fault: unknown) => {
      // what was found may be hidden from this tool: then it is as missing as the name
      throw isMissing(fault) ? error : fault;
    });
    return { ...result, content: [...content, { type: "text", text: `Found as ${found}` }] };
  }
}

/** True for a name of nothing; not for a fault of another argument. */
function isUnknownName(mounts: Mounts, given: string, error: unknown): boolean {
  if (isMissing(error)) return true;
  if (!SluiceError.is(error) || error.code !== "invalid_argument") return false;
  try {
    mounts.placeOf(given);
    return false;
  } catch {
    return true;
  }
}

function isMissing(error: unknown): boolean {
  return SluiceError.is(error) && error.code === "not_found";
}
