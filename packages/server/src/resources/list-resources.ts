import type { ListResourcesResult, McpServer, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { answerCall, type CallWork } from "../sdk/call.ts";
import { eraOf } from "../delivery/client-streaming.ts";
import { isStreaming } from "../delivery/is-streaming.ts";
import { resourceEntry } from "./resource-entry.ts";
import { knownType } from "./resource-type.ts";
import { askHandler, guarded, handlerOf } from "../sdk/sdk-handlers.ts";
import { tagOf, type SluiceParts } from "../options/sluice-parts.ts";
import { visiblePage } from "./visible-page.ts";

/** What {@link attachList} is told. */
export interface ListOptions {
  /** Called when a client is about to get a page: it may want to hear when the list changes. */
  readonly onListed: (ctx: ServerContext) => void;
}

/**
 * Puts pages of storage behind what the author registered. Only listing is replaced, because the
 * SDK's handler has no pages; the author's resources stay first.
 */
export function attachList(parts: SluiceParts, mcp: McpServer, options: ListOptions): void {
  const { server } = mcp;
  const listRegistered = handlerOf(server, "resources/list");

  async function answer(
    { cursor: sent, ...others }: Readonly<Record<string, unknown>>,
    ctx: ServerContext,
    { principal, entry }: CallWork,
  ): Promise<ListResourcesResult> {
    const context = [parts.endpoint.url, parts.mapper.baseUri, tagOf(principal) ?? ""];
    const seal = (page: ListResourcesResult, whose: Whose): ListResourcesResult =>
      page.nextCursor === undefined
        ? page
        : { ...page, nextCursor: parts.cursors.seal(whose + page.nextCursor, context) };
    const { whose, cursor } = readCursor(parts, sent, context);
    const pageOf = (from: string | undefined): Promise<ListResourcesResult> =>
      storagePage(parts, from, { principal, entry, ctx, isMarked: isStreaming(mcp, ctx) });

    if (whose === storages) return seal(await pageOf(cursor), storages);
    const asked = cursor === undefined ? others : { ...others, cursor };
    const registered = (await askHandler(
      listRegistered,
      "resources/list",
      asked,
      ctx,
    )) as ListResourcesResult;
    if (registered.nextCursor !== undefined) return seal(registered, authors);
    const page = await pageOf(undefined);
    const resources = [...registered.resources, ...page.resources];
    return seal({ ...registered, ...page, resources }, storages);
  }

  server.setRequestHandler("resources/list", ({ params }, ctx) =>
    guarded(parts, { mcp, ctx }, async () => {
      const call = { mcp, ctx, action: "list", kind: "request" } as const;
      const result = await answerCall(parts, call, async (work) => ({
        result: await answer(params ?? {}, ctx, work),
      }));
      options.onListed(ctx);
      return { ...result, ...cacheHint(parts, mcp) };
    }),
  );
}

/** One page of storage, without what the caller may not list. */
async function storagePage(
  parts: SluiceParts,
  cursor: string | undefined,
  {
    principal,
    entry,
    ctx,
    isMarked,
  }: Omit<CallWork, "address"> & { ctx: ServerContext; isMarked: boolean },
): Promise<ListResourcesResult> {
  const page = await visiblePage(parts, {
    principal,
    cursor,
    limit: parts.options.pageSize ?? defaultPageSize,
    signal: ctx.mcpReq.signal,
  });
  entry.facts.shown = page.objects.length;
  entry.facts.withheld = page.withheld;
  return {
    resources: await Promise.all(
      page.objects.map((info) => {
        const mimeType =
          info.contentType === undefined && page.untyped ? undefined : knownType(info);
        return resourceEntry(parts, info, { mimeType, isMarked });
      }),
    ),
    ...(page.cursor !== undefined && { nextCursor: page.cursor }),
  };
}

/** Fields of MCP 2026-07-28 that say how long an answer may be kept, and that it is for nobody else. */
export function cacheHint(
  { options }: SluiceParts,
  mcp: McpServer,
): { ttlMs?: number; cacheScope?: "private" } {
  if (eraOf(mcp) === "legacy") return {};
  return { ttlMs: options.cacheTtlMs ?? 0, cacheScope: "private" };
}

const defaultPageSize = 100;

/** Whose pages a cursor goes on with: the author's come first. */
type Whose = typeof authors | typeof storages;
const authors = "r";
const storages = "s";

/** Cursors are sealed: one of storage can name objects that the caller may not know. */
function readCursor(
  { cursors }: SluiceParts,
  sent: unknown,
  context: readonly string[],
): { whose: Whose; cursor: string | undefined } {
  if (sent === undefined) return { whose: authors, cursor: undefined };
  if (typeof sent !== "string")
    throw new SluiceError("invalid_argument", "sluice: list: the cursor is no string");
  const text = cursors.unseal(sent, context);
  return { whose: text.startsWith(storages) ? storages : authors, cursor: text.slice(1) };
}
