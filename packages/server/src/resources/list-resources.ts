import type {
  ListResourcesResult,
  McpServer,
  Resource,
  ServerContext,
  ResourceTemplateType,
  ListResourceTemplatesResult,
} from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers, EXTENSION_ID, type TextSealer } from "@sluice/core/internal";
import { UnlistedTally } from "@sluice/storage/internal";
import { tagOf } from "../access/principal.ts";
import type { IdentifiedCall, ResourceCalls } from "../calls/resource-calls.ts";
import { mountsTemplate } from "../calls/resource-owner.ts";
import { requireHandler } from "../calls/sdk-handlers.ts";
import { canStream } from "../calls/streaming-declarations.ts";
import { knownType } from "../content/resource-type.ts";
import { isProtocolType } from "../http/media-types.ts";
import { prefixIn, type Mount } from "../storage/mount.ts";
import { isThereFor, type Mounts } from "../storage/mounts.ts";
import { streamableMark, type EntryFacts } from "../storage/resource-metadata.ts";
import { visiblePage, type VisiblePage } from "./visible-page.ts";

/** What lists are made with. */
export interface ListParts {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  /** Seals cursors: one of storage can name objects that the caller may not know. */
  readonly cursors: TextSealer;
  /** URL of the endpoint, for which alone cursors are good. */
  readonly audience: string;
  readonly pageSize: number | undefined;
}

/**
 * Puts pages of storage behind what the author registered, mount after mount. Only listing is replaced, because the
 * SDK's handler has no pages; the author's resources stay first. `mark` is put on these.
 */
export function resourcesHandler(
  parts: ListParts,
  mcp: McpServer,
  mark: MarkRegistered | undefined,
): (params: object | undefined, ctx: ServerContext) => Promise<ListResourcesResult> {
  const { calls, cursors, audience, mounts } = parts;
  const listAll = requireHandler<ListResourcesResult>(mcp.server, "resources/list");

  async function listRegistered(params: object, ctx: ServerContext): Promise<ListResourcesResult> {
    const sdkResult = await listAll(params, ctx);
    if (!mark || !canStream(mcp, ctx)) return sdkResult;
    return { ...sdkResult, resources: sdkResult.resources.map(mark) };
  }

  async function pageFor(
    { cursor: sent, ...others }: { readonly cursor?: unknown },
    ctx: ServerContext,
    work: IdentifiedCall,
  ): Promise<ListResourcesResult> {
    const context = [audience, mounts.storages[0]!.mapper.baseUri, tagOf(work.principal) ?? ""];
    const seal = (page: ListResourcesResult, source: PageSource): ListResourcesResult =>
      page.nextCursor === undefined
        ? page
        : { ...page, nextCursor: cursors.seal(source + page.nextCursor, context) };
    const { source, cursor } = readCursor(cursors, sent, context);
    const pageOf = (from: string | undefined): Promise<ListResourcesResult> =>
      mountsPage(parts, from, { ...work, ctx, isMarked: canStream(mcp, ctx) });

    if (source === fromMounts) return seal(await pageOf(cursor), fromMounts);
    const pageParams = cursor === undefined ? others : { ...others, cursor };
    const registered = await listRegistered(pageParams, ctx);
    if (registered.nextCursor !== undefined) return seal(registered, fromAuthor);
    const page = await pageOf(undefined);
    const resources = [...registered.resources, ...page.resources];
    const meta = page._meta && { _meta: { ...registered._meta, ...page._meta } };
    return seal({ ...registered, ...page, ...meta, resources }, fromMounts);
  }

  return (params = {}, ctx) =>
    calls.answer({ mcp, ctx, action: "list", kind: "request" }, async (work) => ({
      answer: await pageFor(params, ctx, work),
    }));
}

interface PageWork extends IdentifiedCall {
  readonly ctx: ServerContext;
  readonly isMarked: boolean;
}

/** One page out of the mounts that the caller has, without what it may not list. */
async function mountsPage(
  { mounts, pageSize = defaultPageSize }: ListParts,
  cursor: string | undefined,
  { principal, entry, ctx, isMarked }: PageWork,
): Promise<ListResourcesResult> {
  const { signal } = ctx.mcpReq;
  const resources: Resource[] = [];
  const tally = new UnlistedTally();
  let withheld = 0;
  let next: string | undefined;
  const places = placesFrom(mounts.all, principal, cursor);
  for (const [looked, { mount, from }] of places.entries()) {
    const limit = pageSize - resources.length;
    if (limit === 0 || looked === maxMounts || withheld >= maxWithheld) {
      next = mount.namePrefix;
      break;
    }
    let page: VisiblePage;
    try {
      page = await visiblePage(mount, { principal, cursor: from, limit, signal });
    } catch (error) {
      // what stands before a mount that fails is told; the next page meets the fault
      if (resources.length === 0 || signal.aborted) throw error;
      next = mount.namePrefix;
      break;
    }
    const entries = await entriesOf(mount, page, { isMarked, signal });
    // an object whose URI a provider has cannot be read by it
    resources.push(...entries.filter(({ uri }) => mounts.mountOf(uri) === mount));
    withheld += page.withheld;
    tally.addAll(page.unlisted);
    if (page.cursor !== undefined) {
      next = mount.namePrefix + page.cursor;
      break;
    }
  }
  entry.facts.shown = resources.length;
  entry.facts.withheld = withheld;
  const unlisted = tally.take();
  const meta = unlisted && { [EXTENSION_ID]: { unlisted } };
  return { resources, ...definedMembers({ nextCursor: next, _meta: meta }) };
}

/** Mounts looked at for one page, however few objects they have. */
const maxMounts = 50;
/** Hidden objects after which a page goes no further than the mount that it is in. */
const maxWithheld = 10_000;

/** The mounts that a principal has, from the one that a cursor names. */
function placesFrom(
  mounts: readonly Mount[],
  principal: Principal | undefined,
  cursor: string | undefined,
): { readonly mount: Mount; readonly from?: string }[] {
  const here = mounts.filter((mount) => isThereFor(mount, principal));
  if (cursor === undefined) return here.map((mount) => ({ mount }));
  const prefix = prefixIn(cursor);
  const at = here.findIndex(({ namePrefix }) => namePrefix === prefix);
  const first = here[at];
  if (!first)
    throw new SluiceError("invalid_argument", "sluice: list: the mount of the cursor is gone");
  const from = cursor.slice(prefix.length) || undefined;
  const rest = here.slice(at + 1).map((mount) => ({ mount }));
  return [{ mount: first, ...definedMembers({ from }) }, ...rest];
}

function entriesOf(
  mount: Mount,
  page: VisiblePage,
  facts: Pick<EntryFacts, "isMarked" | "signal">,
): Promise<Resource[]> {
  return Promise.all(
    page.objects.map((info) => {
      const mimeType = info.contentType === undefined && page.untyped ? undefined : knownType(info);
      return mount.entries.of(info, { ...facts, mimeType });
    }),
  );
}

const defaultPageSize = 100;

/** Which pages a cursor continues: the author's come first. */
type PageSource = typeof fromAuthor | typeof fromMounts;
const fromAuthor = "r";
const fromMounts = "s";

function readCursor(
  cursors: TextSealer,
  sent: unknown,
  context: readonly string[],
): { source: PageSource; cursor: string | undefined } {
  if (sent === undefined) return { source: fromAuthor, cursor: undefined };
  if (typeof sent !== "string")
    throw new SluiceError("invalid_argument", "sluice: list: the cursor is not a string");
  const text = cursors.unseal(sent, context);
  return { source: text.startsWith(fromMounts) ? fromMounts : fromAuthor, cursor: text.slice(1) };
}

/** Marks an entry of an author's list as streamable. */
export type MarkRegistered = <Entry extends Resource | ResourceTemplateType>(entry: Entry) => Entry;

/**
 * Marks what can be streamed, as far as its entry tells. Left as they are: entries that have a mark of their author's, larger ones
 * than `maxBytes`, and those whose type never leaves as bytes.
 */
export function registeredMark(maxBytes: number): MarkRegistered {
  return (entry) => {
    const { streamable, size = 0, mimeType = "", _meta } = entry as Listed;
    const { [EXTENSION_ID]: known } = _meta ?? {};
    const meta = Object(known) as { readonly streamable?: unknown };
    if (streamable !== undefined || meta.streamable !== undefined) return entry;
    if (size > maxBytes || isProtocolType(mimeType)) return entry;
    const mark = { ...meta, streamable: true };
    return { ...entry, streamable: true, _meta: { ..._meta, [EXTENSION_ID]: mark } };
  };
}

interface Listed {
  readonly streamable?: unknown;
  readonly size?: number;
  readonly mimeType?: string;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Lets the SDK list templates, within the limits and with a record, and puts those of the mounts in the place of ours. */
export function templatesHandler(
  { calls, mounts }: Pick<ListParts, "calls" | "mounts">,
  mcp: McpServer,
  mark: MarkRegistered = (entry) => entry,
): (params: object | undefined, ctx: ServerContext) => Promise<ListResourceTemplatesResult> {
  const listAll = requireHandler<ListResourceTemplatesResult>(
    mcp.server,
    "resources/templates/list",
  );
  return (params, ctx) =>
    calls.answer(
      { mcp, ctx, action: "templates", kind: "request" },
      async ({ principal, entry }) => {
        const sdkResult = await listAll(params, ctx);
        const isMarked = canStream(mcp, ctx);
        const resourceTemplates = sdkResult.resourceTemplates.flatMap((one) => {
          if (one.uriTemplate === mountsTemplate)
            return templatesOf(mounts.all, principal, isMarked);
          return isMarked ? mark(one) : one;
        });
        entry.facts.shown = resourceTemplates.length;
        return { answer: { ...sdkResult, resourceTemplates } };
      },
    );
}

/** The templates of the mounts that a principal has. */
export function templatesOf(
  all: readonly Mount[],
  principal: Principal | undefined,
  isMarked: boolean,
): ResourceTemplateType[] {
  const mark = isMarked ? streamableMark : {};
  return all
    .filter((mount) => mount.template && isThereFor(mount, principal))
    .map(({ template }) => ({ ...template!, ...mark }));
}
