import type { CallToolResult, ServerContext } from "@modelcontextprotocol/server";
import { excerpt } from "@sluice/core";
import { toolFault } from "../faults/advice.ts";

interface RefusedCall {
  readonly uri: string | undefined;
  readonly ctx: ServerContext;
  readonly onError: (error: unknown) => void;
}

/** An error as a tool's answer, in words for a model. Faults of ours go to `onError`. */
export function toolRefusal(
  error: unknown,
  { uri, ctx, onError }: RefusedCall,
): CallToolResult & { isError: true } {
  const { text, isOurs } = toolFault(error);
  if (isOurs && !ctx.mcpReq.signal.aborted) onError(error);
  const about = uri === undefined ? text : `${excerpt(uri)}: ${text}`;
  return { isError: true, content: [{ type: "text", text: about }] };
}
