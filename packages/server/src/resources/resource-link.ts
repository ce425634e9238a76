import type { ContentBlock, McpServer } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import type { ResourceCalls } from "../calls/resource-calls.ts";
import type { AnswersFor } from "../calls/resource-owner.ts";
import { ensureReadScopes } from "../calls/sdk-handlers.ts";
import { callInV2, type AnyCall } from "../calls/sdk-v1.ts";
import { canStream } from "../calls/streaming-declarations.ts";
import { toolError } from "../faults/advice.ts";
import { RedirectError } from "../provide/provider.ts";
import type { AuthorizedStorage } from "../storage/authorized-storage.ts";
import type { Mounts } from "../storage/mounts.ts";
import { partMeta, readPart, type ResourcePart } from "./read-part.ts";

/** The server and the context that the tool was called with, and how much of the content the link brings along. */
export interface ResourceLinkOptions extends AnyCall {
  /** Maximum bytes of the preview, which only text has. Default 2,048; 0 for none. */
  readonly previewBytes?: number;
}

interface ResourceLinkParts {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  /** The test for resources of this Sluice on a server; a `TypeError` for a server without them. */
  readonly isOursOn: (mcp: McpServer) => AnswersFor;
  readonly onError: (error: unknown) => void;
}

/** Makes the content of a tool's result that points to a resource. */
export type CreateResourceLink = (
  uri: string,
  options: ResourceLinkOptions,
) => Promise<ContentBlock[]>;

/**
 * Makes a link to a resource: a `resource_link` and, for text, the beginning of the resource, both
 * of one version, whose etag is in the link. An error has a message that a tool may let through.
 */
export async function createResourceLink(
  { calls, mounts, isOursOn, onError }: ResourceLinkParts,
  uri: string,
  given: ResourceLinkOptions,
): Promise<ContentBlock[]> {
  const { mcp, ctx } = callInV2(given);
  const { previewBytes = 2_048 } = given;
  const { signal } = ctx.mcpReq;
  const call = { mcp, ctx, action: "read", uri, kind: "transfer" } as const;
  try {
    return await calls.answer(call, async ({ principal, entry }) => {
      const { mount, key } = mounts.placeFor(uri, principal);
      const { mapper, storageAccess, entries } = mount;
      const isOurs = isOursOn(mcp);
      for (const spelling of new Set([mapper.toUri(key), uri]))
        if (!(await isOurs(spelling, ctx)))
          throw new SluiceError(
            "not_found",
            "sluice: link: resources/read of this URI is answered by the server's author",
          );
      await ensureReadScopes(mcp, ctx, uri);
      const storage = await storageAccess.authorize({ principal, key, action: "read" });
      const { info, part } = await preview(storage, { key, previewBytes, signal });
      const mimeType = part?.mimeType ?? (await storage.typeOf(info, { signal }));
      await entry.recordBegun();
      const facts = await storage.about?.(info, signal);
      const isMarked = canStream(mcp, ctx);
      const listEntry = await entries.of(info, { mimeType, isMarked, known: facts });
      const link = { ...listEntry, type: "resource_link" as const };
      if (part?.text === undefined) return { answer: [link] };
      const _meta = { [EXTENSION_ID]: partMeta(part) };
      return {
        answer: [link, { type: "text", text: part.text, _meta }],
        ending: { bytes: part.bytes.byteLength },
      };
    });
  } catch (error) {
    signal.throwIfAborted();
    throw toolError(error, { about: uri, onError });
  }
}

/** The version to link to, and its beginning; an empty resource has none, nor has one whose bytes are at a URL. */
async function preview(
  storage: AuthorizedStorage,
  { key, previewBytes, signal }: { key: string; previewBytes: number; signal: AbortSignal },
): Promise<{ info: ObjectInfo; part?: ResourcePart }> {
  const info = await storage.describe(key, { signal });
  if (previewBytes === 0 || info.size === 0) return { info };
  const range = { unit: "bytes", first: 0 } as const;
  try {
    const part = await readPart(storage, { key, range, maxBytes: previewBytes, signal });
    return { info: part.info, part };
  } catch (error) {
    if (error instanceof RedirectError) return { info };
    throw error;
  }
}
