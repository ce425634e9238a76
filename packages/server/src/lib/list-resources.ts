import type { McpServer, Resource, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/wire";
import type { ObjectInfo } from "@sluice/storage";
import { resourceName, resourceType } from "./resource-type.ts";
import { callerOf, type SluiceParts } from "./sluice-parts.ts";

/** What marks a resource or a template as streamable: literally, and where SDKs keep it. */
export const streamableMark: {
  readonly streamable: true;
  readonly _meta: Record<string, unknown>;
} = { streamable: true, _meta: { [EXTENSION_ID]: { streamable: true } } };

/** What is asked of {@link listResources}. */
export interface ListRequest {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  /** Of storage, as it gave it. */
  readonly cursor: string | undefined;
  readonly isStreaming: boolean;
}

/** One page of storage as resources, without those that the caller may not list. */
export async function listResources(
  parts: SluiceParts,
  { mcp, ctx, cursor, isStreaming }: ListRequest,
): Promise<{ resources: Resource[]; nextCursor?: string }> {
  const { principal } = await parts.identify(callerOf(ctx, mcp));
  const page = await parts.storageOf(principal).list({
    signal: ctx.mcpReq.signal,
    ...(cursor !== undefined && { cursor }),
  });
  const resources: Resource[] = [];
  for (const info of page.objects) {
    const uri = parts.mapper.toUri(info.key);
    try {
      await parts.ensureAccess(principal, uri, "list");
    } catch (error) {
      const isRefused = SluiceError.is(error) && refusals.has(error.code);
      if (isRefused) continue;
      throw error;
    }
    resources.push(resourceOf(uri, info, isStreaming));
  }
  return { resources, ...(page.cursor !== undefined && { nextCursor: page.cursor }) };
}

const refusals: ReadonlySet<string> = new Set(["not_found", "permission_denied"]);

function resourceOf(uri: string, info: ObjectInfo, isStreaming: boolean): Resource {
  const { size, lastModified } = info;
  return {
    uri,
    name: resourceName(info.key),
    mimeType: resourceType(info),
    ...(size !== undefined && { size }),
    ...(lastModified && { annotations: { lastModified: lastModified.toISOString() } }),
    ...(isStreaming && streamableMark),
  };
}
