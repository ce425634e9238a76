import type { ListResourcesResult, McpServer, ServerContext } from "@modelcontextprotocol/server";
import { definedMembers, SluiceError, type TextSealer } from "@sluice/core";
import { tagOf } from "../access/principal.ts";
import { isStreaming } from "../delivery/streaming-declarations.ts";
import type { CallWork, ResourceCalls } from "../sdk/resource-calls.ts";
import { handlerOf } from "../sdk/sdk-handlers.ts";
import type { ResourceEntries } from "./resource-entry.ts";
import { knownType } from "./resource-type.ts";
import { visiblePage, type VisiblePageOptions } from "./visible-page.ts";

interface ListHandlerOptions extends VisiblePageOptions {
  readonly calls: ResourceCalls;
  readonly entries: ResourceEntries;
  /** Seals cursors: one of storage can name objects that the caller may not know. */
  readonly cursors: TextSealer;
  /** URL of the endpoint, for which alone cursors are good. */
  readonly audience: string;
  readonly pageSize: number | undefined;
}

/** Makes what answers `resources/list` on a server. */
export type ListResources = (
  mcp: McpServer,
) => (params: object | undefined, ctx: ServerContext) => Promise<ListResourcesResult>;

/**
 * Puts pages of storage behind what the author registered. Only listing is replaced, because the
 * SDK's handler has no pages; the author's resources stay first.
 */
export function createListResources(options: ListHandlerOptions): ListResources {
  const { calls, cursors, audience, mapper } = options;
  return (mcp) => {
    const listRegistered = handlerOf<ListResourcesResult>(mcp.server, "resources/list");

    async function pageFor(
      { cursor: sent, ...others }: { readonly cursor?: unknown },
      ctx: ServerContext,
      work: CallWork,
    ): Promise<ListResourcesResult> {
      const context = [audience, mapper.baseUri, tagOf(work.principal) ?? ""];
      const seal = (page: ListResourcesResult, source: PageSource): ListResourcesResult =>
        page.nextCursor === undefined
          ? page
          : { ...page, nextCursor: cursors.seal(source + page.nextCursor, context) };
      const { source, cursor } = readCursor(cursors, sent, context);
      const pageOf = (from: string | undefined): Promise<ListResourcesResult> =>
        storagePage(options, from, { ...work, ctx, isMarked: isStreaming(mcp, ctx) });

      if (source === fromStorage) return seal(await pageOf(cursor), fromStorage);
      const asked = cursor === undefined ? others : { ...others, cursor };
      const registered = await listRegistered(asked, ctx);
      if (registered.nextCursor !== undefined) return seal(registered, fromAuthor);
      const page = await pageOf(undefined);
      const resources = [...registered.resources, ...page.resources];
      return seal({ ...registered, ...page, resources }, fromStorage);
    }

    return (params = {}, ctx) =>
      calls.answer({ mcp, ctx, action: "list", kind: "request" }, async (work) => ({
        result: await pageFor(params, ctx, work),
      }));
  };
}

/** One page of storage, without what the caller may not list. */
async function storagePage(
  { entries, pageSize = defaultPageSize, ...options }: ListHandlerOptions,
  cursor: string | undefined,
  { principal, entry, ctx, isMarked }: CallWork & { ctx: ServerContext; isMarked: boolean },
): Promise<ListResourcesResult> {
  const { signal } = ctx.mcpReq;
  const page = await visiblePage(options, { principal, cursor, limit: pageSize, signal });
  entry.facts.shown = page.objects.length;
  entry.facts.withheld = page.withheld;
  return {
    resources: await Promise.all(
      page.objects.map((info) => {
        const mimeType =
          info.contentType === undefined && page.untyped ? undefined : knownType(info);
        return entries.of(info, { mimeType, isMarked });
      }),
    ),
    ...definedMembers({ nextCursor: page.cursor }),
  };
}

const defaultPageSize = 100;

/** Which pages a cursor continues: the author's come first. */
type PageSource = typeof fromAuthor | typeof fromStorage;
const fromAuthor = "r";
const fromStorage = "s";

function readCursor(
  cursors: TextSealer,
  sent: unknown,
  context: readonly string[],
): { source: PageSource; cursor: string | undefined } {
  if (sent === undefined) return { source: fromAuthor, cursor: undefined };
  if (typeof sent !== "string")
    throw new SluiceError("invalid_argument", "sluice: list: the cursor is no string");
  const text = cursors.unseal(sent, context);
  return { source: text.startsWith(fromStorage) ? fromStorage : fromAuthor, cursor: text.slice(1) };
}
