import {
  UriTemplate,
  ResourceTemplate,
  type ListResourcesResult,
  type ListResourceTemplatesResult,
  type McpServer,
  type ReadResourceResult,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { Callers } from "../access/principal.ts";
import type { Mount } from "../storage/mount.ts";
import { isThereFor, type Mounts } from "../storage/mounts.ts";
import { callerOf } from "./request-caller.ts";
import { requireHandler } from "./sdk-handlers.ts";

/** Says of a URI whether a handler of a server answers for it. */
export type AnswersFor = (uri: string, ctx: ServerContext) => Promise<boolean>;

/** Runs `resources/read` of a URI, unless it comes to the template of this Sluice. */
export type ReadOthers = (
  uri: string,
  ctx: ServerContext,
) => Promise<ReadResourceResult | undefined>;

/** Asks a server whether a URI comes to the template of this Sluice. */
interface ReadProbe {
  /** True when `resources/read` of this URI comes to our template, and is enabled. */
  readonly isOurs: AnswersFor;
  /** What the author's handler gives for a URI, or throws; `undefined` for one that comes to our template. */
  readonly readOthers: ReadOthers;
  /** True for the context of a probe: our template answers it with `probed` and reads nothing. */
  readonly isProbe: (ctx: ServerContext) => boolean;
  readonly probed: ReadResourceResult;
}

/**
 * Makes the probe. Only the SDK knows which registered resource a URI comes to and whether that is enabled, and only its
 * handler of `resources/read` shows it.
 */
export function createReadProbe(server: Server): ReadProbe {
  const probes = new WeakSet<ServerContext>();
  const probed: ReadResourceResult = { contents: [] };

  async function probe(uri: string, ctx: ServerContext): Promise<ReadResourceResult> {
    const copy = { ...ctx };
    probes.add(copy);
    return requireHandler<ReadResourceResult>(server, "resources/read")({ uri }, copy);
  }

  return {
    probed,
    isProbe: (ctx) => probes.has(ctx),
    isOurs: async (uri, ctx) => (await probe(uri, ctx).catch(() => undefined)) === probed,
    async readOthers(uri, ctx) {
      const answer = await probe(uri, ctx);
      return answer === probed ? undefined : answer;
    },
  };
}

const maxPages = 10;

/**
 * Tells whether the author lists a resource outside of the base URIs, or has a template for it. Call it before the
 * lists of the mounts are registered: it takes the handlers of that moment for the author's. Nothing is read: what the lists
 * leave out, such as a disabled resource, does not exist.
 */
export function createAuthoredTest({ server }: McpServer): AnswersFor {
  const list = requireHandler<ListResourcesResult>(server, "resources/list");
  const listTemplates = requireHandler<ListResourceTemplatesResult>(
    server,
    "resources/templates/list",
  );

  async function hasTemplate(uri: string, ctx: ServerContext): Promise<boolean> {
    const { resourceTemplates } = await listTemplates({}, ctx);
    return resourceTemplates.some(
      ({ uriTemplate }) =>
        uriTemplate !== mountsTemplate && new UriTemplate(uriTemplate).match(uri) !== null,
    );
  }

  async function isListed(uri: string, ctx: ServerContext): Promise<boolean> {
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const { resources, nextCursor } = await list(cursor === undefined ? {} : { cursor }, ctx);
      if (resources.some((resource) => isSame(resource.uri, uri))) return true;
      if (nextCursor === undefined) return false;
      cursor = nextCursor;
    }
    return false;
  }

  return async (uri, ctx) => (await hasTemplate(uri, ctx)) || (await isListed(uri, ctx));
}

/** True if the SDK would find the listed resource by this URI: it normalizes what clients send. */
function isSame(listed: string, uri: string): boolean {
  return listed === uri || (URL.canParse(uri) && listed === new URL(uri).href);
}

/** The template of all resources of a Sluice in the registry of a server; lists show those of the mounts in its place. */
export const mountsTemplate = "sluice:{+key}";

interface MountsRegistration {
  readonly template: ResourceTemplate;
  /** Calls a handler of the SDK as if there were no mounts: it looks the template up before its first `await`. */
  readonly asIfAbsent: <Answer>(call: () => Promise<Answer>) => Promise<Answer>;
}

/**
 * One entry in the registry of a server for every mount: the SDK compiles and tries each template for each request, and
 * stateless servers are made for each request.
 */
export function createMountsTemplate(
  mounts: Mounts,
  complete: ConstructorParameters<typeof ResourceTemplate>[1]["complete"],
): MountsRegistration {
  const uriTemplate = mounts.areForAll ? sharedTemplate(mounts) : new MountsTemplate(mounts);
  return {
    template: new ResourceTemplate(
      uriTemplate,
      complete ? { list: undefined, complete } : { list: undefined },
    ),
    asIfAbsent(call) {
      uriTemplate.isAbsent = true;
      try {
        return call();
      } finally {
        uriTemplate.isAbsent = false;
      }
    },
  };
}

const shared = new WeakMap<Mounts, MountsTemplate>();

/** One template for all servers, if none of them uses `asIfAbsent`. */
function sharedTemplate(mounts: Mounts): MountsTemplate {
  let template = shared.get(mounts);
  if (!template) shared.set(mounts, (template = new MountsTemplate(mounts)));
  return template;
}

class MountsTemplate extends UriTemplate {
  readonly #mounts: Mounts;
  isAbsent = false;

  constructor(mounts: Mounts) {
    super(mountsTemplate);
    this.#mounts = mounts;
  }

  override match(uri: string): Record<string, string> | null {
    return !this.isAbsent && this.#mounts.covers(uri) ? {} : null;
  }
}

/** True if the caller of a request does not have a mount: the SDK then answers as if it were not configured. */
export async function isAbsent(
  { identify }: Pick<Callers, "identify">,
  mount: Mount,
  { mcp, ctx }: { readonly mcp: McpServer; readonly ctx: ServerContext },
): Promise<boolean> {
  if (mount.isForAll) return false;
  try {
    const { principal } = await identify(callerOf(ctx, mcp));
    return !isThereFor(mount, principal);
  } catch {
    // the call itself meets the same fault, and reports it
    return false;
  }
}
