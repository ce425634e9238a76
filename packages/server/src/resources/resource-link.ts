import type { ContentBlock, McpServer, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/wire";
import type { ObjectInfo } from "@sluice/storage";
import { isOursOn } from "../sdk/attach.ts";
import { answerCall } from "../sdk/call.ts";
import { isStreaming } from "../delivery/is-streaming.ts";
import { partMeta, readPart, type Part } from "./read-part.ts";
import type { Reach } from "../access/reach.ts";
import { resourceEntry } from "./resource-entry.ts";
import { ensureReadScopes } from "../sdk/sdk-handlers.ts";
import type { AnyCall } from "../sdk/sdk-v1.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";
import { toolFault } from "../sdk/tool-fault.ts";

/** The server and the context that the tool was called with, and how much of the content the link brings along. */
export interface LinkOptions extends AnyCall {
  /** Most bytes of the preview, which only text has. Default 2,048; 0 for none. */
  readonly previewBytes?: number;
}

/** The same, as handlers of SDK v2 see it. */
interface LinkCall extends LinkOptions {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
}

/**
 * Makes the content of a tool's result: a `resource_link` and, for text, the beginning of the resource. Both
 * are of one version, whose etag is in the link. What it throws has a message that a tool may let through.
 */
export async function linkTo(
  parts: SluiceParts,
  uri: string,
  options: LinkCall,
): Promise<ContentBlock[]> {
  try {
    return await makeLink(parts, uri, options);
  } catch (error) {
    const { signal } = options.ctx.mcpReq;
    signal.throwIfAborted();
    const { code, text, isOurs } = toolFault(error);
    if (isOurs) parts.onError(error);
    throw new SluiceError(code, `${uri}: ${text}`, { cause: error });
  }
}

function makeLink(
  parts: SluiceParts,
  uri: string,
  { mcp, ctx, previewBytes = 2_048 }: LinkCall,
): Promise<ContentBlock[]> {
  const call = { mcp, ctx, action: "read", uri, kind: "transfer" } as const;
  return answerCall(parts, call, async ({ principal, entry }) => {
    const key = parts.mapper.toKey(uri);
    const isOurs = isOursOn(parts, mcp);
    for (const spelling of new Set([parts.mapper.toUri(key), uri]))
      if (!(await isOurs(spelling, ctx)))
        throw new SluiceError("not_found", "sluice: link: read of this URI is not ours");
    await ensureReadScopes(mcp, ctx, uri);
    const reach = await parts.reach({ principal, key, action: "read" });
    const { signal } = ctx.mcpReq;
    const { info, part } = await preview(reach, { key, previewBytes, signal });
    const mimeType = part?.mimeType ?? (await reach.typeOf(info, { signal }));
    await entry.admit();
    const link = {
      ...(await resourceEntry(parts, info, { mimeType, isMarked: isStreaming(mcp, ctx) })),
      type: "resource_link" as const,
    };
    if (part?.text === undefined) return { result: [link] };
    const meta = { [EXTENSION_ID]: partMeta(part) };
    return {
      result: [link, { type: "text", text: part.text, _meta: meta }],
      ending: { bytes: part.bytes.byteLength },
    };
  });
}

/** The version to link to, and its beginning; an empty resource has none. */
async function preview(
  reach: Reach,
  { key, previewBytes, signal }: { key: string; previewBytes: number; signal: AbortSignal },
): Promise<{ info: ObjectInfo; part?: Part }> {
  const info = await reach.describe(key, { signal });
  if (previewBytes === 0 || info.size === 0) return { info };
  const range = { unit: "bytes", first: 0 } as const;
  const part = await readPart(reach, { key, range, maxBytes: previewBytes, signal });
  return { info: part.info, part };
}
