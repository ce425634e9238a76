import type { CallToolResult } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { definedMembers, formatEntityTag, trueFileName } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { z } from "zod/v4";
import { ensureReadScopes } from "../calls/sdk-handlers.ts";
import { callNamed } from "./named-call.ts";
import { toolSchema } from "./tool-input.ts";
import { toolRefusal, type ToolParts, type ToolPlace } from "./tool-parts.ts";

/** Registers the tool that tells what is known of one file. */
export function registerStatTool(parts: ToolParts, { mcp, isOurs }: ToolPlace, name: string): void {
  const { calls, mounts, onError } = parts;
  mcp.registerTool(name, description, async ({ uri: given }, ctx) => {
    const describe = (uri: string): Promise<CallToolResult> =>
      calls.answer({ mcp, ctx, action: "read", uri, kind: "request" }, async (work) => {
        await ensureReadScopes(mcp, ctx, uri);
        const { principal } = work;
        const { signal } = ctx.mcpReq;
        const { mount, key } = mounts.placeFor(uri, principal);
        const storage = await mount.storageAccess.authorize({ principal, key, action: "read" });
        for (const spelling of new Set([uri, mount.mapper.toUri(key)]))
          if (!(await isOurs(spelling, ctx)))
            throw new SluiceError(
              "not_found",
              "sluice: stat: resources/read of this URI is answered by the server's author",
            );
        const info = await storage.describe(key, { signal });
        return { answer: answerOf(uri, info, await storage.typeOf(info, { signal })) };
      });
    try {
      return await callNamed(parts, { mcp, ctx, given }, describe);
    } catch (error) {
      return toolRefusal(error, { uri: given, ctx, onError });
    }
  });
}

const description = {
  title: "Describe a file",
  description: "Tells size, type, time and digest of a file, as far as they are known.",
  inputSchema: toolSchema({ uri: z.string() }),
  outputSchema: toolSchema({
    uri: z.string(),
    mime_type: z.string(),
    size: z.number().optional(),
    modified: z.string().optional(),
    sha256: z.string().optional(),
    etag: z.string().optional(),
  }),
  annotations: { readOnlyHint: true, openWorldHint: false },
};

function answerOf(uri: string, info: ObjectInfo, mimeType: string): CallToolResult {
  const { key, size, etag, digests, lastModified } = info;
  const modified = lastModified?.toISOString();
  const sha256 = digests?.sha256;
  const facts = [
    trueFileName(key),
    ...(size === undefined ? [] : [`${size} bytes`]),
    mimeType,
    ...(modified === undefined ? [] : [`changed ${modified}`]),
    ...(sha256 === undefined ? [] : [`sha-256 ${sha256}`]),
  ].join(", ");
  return {
    content: [{ type: "text", text: facts }],
    structuredContent: {
      uri,
      mime_type: mimeType,
      ...definedMembers({
        size,
        modified,
        sha256,
        etag: etag && formatEntityTag(etag).slice(1, -1),
      }),
    },
  };
}
