import type {
  Server,
  McpServer,
  ReadResourceResult,
  ScopeChallengeHandler,
  ServerContext,
  StandardSchemaV1,
} from "@modelcontextprotocol/server";
import { definedMembers, STREAM_METHOD, TREE_METHOD } from "@sluice/core/internal";
import { z } from "zod/v4";
import type { Callers } from "../access/principal.ts";
import { cacheHint } from "../calls/request-caller.ts";
import { methodNotFound, type ResourceCalls } from "../calls/resource-calls.ts";
import {
  createMountsTemplate,
  createAuthoredTest,
  createReadProbe,
  isAbsent,
  type AnswersFor,
} from "../calls/resource-owner.ts";
import { ensureReadScopes, findHandler, requireHandler } from "../calls/sdk-handlers.ts";
import { isFromV1, isV2, serverInV2, type AnyMcpServer } from "../calls/sdk-v1.ts";
import { canStream, declareStreaming } from "../calls/streaming-declarations.ts";
import type { Subscribers } from "../changes/subscriber.ts";
import { streamResource, type StreamParts } from "../delivery/stream-resource.ts";
import { streamTree } from "../delivery/stream-tree.ts";
import {
  registeredMark,
  resourcesHandler,
  templatesHandler,
  type ListParts,
} from "../resources/list-resources.ts";
import type { BinaryReads, ResourceReader } from "../resources/resource-reader.ts";
import type { Mounts } from "../storage/mounts.ts";
import type { ToolOptions, ToolParts } from "../tools/tool-parts.ts";
import { attachTools } from "../tools/tools.ts";
import { attachCompletion } from "./attach-completion.ts";
import { attachSubscriptions } from "./attach-subscriptions.ts";

/** Options of `attach`. */
export interface AttachOptions {
  /**
   * Whether to offer streaming to clients over HTTP and WebSocket. Over stdio there is none (SEP-2532 §4), and nothing
   * declares it there. Default true.
   *
   * `"registered"`: also what the author registered with the SDK, before or after: the one content that its `resources/read`
   * gives, as bytes, up to `maxReadBytes` of the Sluice. Nothing resumes, and there are no ranges. Lists mark these resources
   * as streamable where the author has not marked them. What cannot go so is answered "Stream not supported".
   */
  readonly stream?: boolean | "registered";
  /**
   * Registers tools for models, in every host: `list_files`, `read_file`, `stat_file` and, where `links` of the Sluice is
   * set, `get_download_link`. They know what the storages have, and not what the author registered. Default: none.
   */
  readonly tools?: boolean | ToolOptions;
  /**
   * Gives `resources/read` whole resources as bytes beside the response, to clients that ask for them:
   * `binaryReads` of `@sluice/binary-transfer`. Default: everything is inside the JSON.
   */
  readonly binary?: BinaryReads;
}

interface AttachmentsOptions {
  readonly calls: ResourceCalls;
  readonly callers: Callers;
  readonly mounts: Mounts;
  readonly subscribers: Subscribers;
  readonly scopeChallenge: ScopeChallengeHandler | undefined;
  readonly cacheTtlMs: number | undefined;
  readonly reader: ResourceReader;
  readonly streaming: StreamParts;
  readonly listing: ListParts;
  readonly tools: ToolParts;
  /** Runs work that outlives the call it begins in, outside of the call's trace. */
  readonly runApart: <Result>(work: () => Result) => Result;
  readonly onError: (error: unknown) => void;
}

/** The servers that one Sluice is attached to. */
export class Attachments {
  readonly #options: AttachmentsOptions;
  readonly #attached = new WeakMap<McpServer, AnswersFor>();

  constructor(options: AttachmentsOptions) {
    this.#options = options;
  }

  /** Serves the resources on a server that is not connected yet; once for each server. */
  attach(given: AnyMcpServer, options: AttachOptions): void {
    const mcp = serverInV2(given);
    if (!this.#attached.has(mcp)) this.#attached.set(mcp, attach(this.#options, mcp, options));
  }

  /** Throws a `TypeError` for what is not a server of SDK v2, and for one that another Sluice is attached to. */
  ensureOwn(mcp: McpServer): void {
    if (!isV2(mcp))
      throw new TypeError(
        'sluice: create must give an McpServer of @modelcontextprotocol/server; an app with servers of SDK v1 keeps its routes, with createHandler({ sluice, behind: "app" }) before them',
      );
    if (!this.#attached.has(mcp) && findHandler(mcp.server, STREAM_METHOD))
      throw new TypeError(
        "sluice: the server is attached to another Sluice: attach it to this one",
      );
  }

  /** The test for resources of this Sluice on a server; a `TypeError` for a server without them. */
  isOursOn(mcp: McpServer): AnswersFor {
    const isOurs = this.#attached.get(mcp);
    if (isOurs) return isOurs;
    throw new TypeError("sluice: link: attach was not called for the server");
  }
}

/**
 * Wires a Sluice to a server. The template goes through the SDK's own registry, so reading keeps the SDK's order:
 * resources the author registered come first.
 */
function attach(
  parts: AttachmentsOptions,
  mcp: McpServer,
  { stream = true, tools = false, binary }: AttachOptions,
): AnswersFor {
  const { mounts, calls, callers, listing, scopeChallenge, cacheTtlMs, reader, streaming } = parts;
  const { server } = mcp;
  const isV1 = isFromV1(mcp);
  if (stream !== "registered" && typeof stream !== "boolean")
    throw new TypeError('sluice: attach: stream is true, false or "registered"');
  const withRegistered = stream === "registered";
  if (isV1 && binary)
    throw new TypeError(
      "sluice: attach: SDK v1 does not tell handlers what their connection negotiated: binary transfer needs an McpServer of @modelcontextprotocol/server",
    );
  if (findHandler(server, STREAM_METHOD))
    throw new TypeError(
      "sluice: attach: the server has a Sluice already; one with several storages takes them as mounts",
    );
  const { isOurs, readOthers, isProbe, probed } = createReadProbe(server);

  /**
   * Runs an answer, translates its errors and adds the cache hint. Notes that the client has seen it, so that a lasting
   * connection is told of changes.
   */
  const answerCacheable = <Result extends object>(
    { ctx, ...about }: { readonly ctx: ServerContext; readonly uri?: string },
    answer: () => Promise<Result>,
  ): Promise<Result> =>
    calls.translatingErrors({ mcp, ctx, ...about }, async () => {
      const result = await answer();
      onSeen(ctx);
      return { ...result, ...cacheHint(mcp, cacheTtlMs) };
    });

  const hasCompletion = findHandler(server, "completion/complete") !== undefined;
  // makes the SDK declare completions and set a handler, which `attachCompletion` replaces below
  const completeNone = hasCompletion ? undefined : { key: () => [] };
  const { template, asIfAbsent } = createMountsTemplate(mounts, completeNone);
  mcp.registerResource(
    "sluice",
    template,
    definedMembers({ scopeChallenge }),
    async ({ href: uri }, _variables, ctx): Promise<ReadResourceResult> => {
      if (isProbe(ctx)) return probed;
      return answerCacheable({ ctx, uri }, async () => {
        // SDK v2 asks for scopes before it calls this
        if (isV1) await ensureReadScopes(mcp, ctx, uri);
        return reader.read({ mcp, ctx, uri, isOurs }, binary);
      });
    },
  );

  if (!mounts.areForAll) {
    const read = requireHandler<ReadResourceResult>(server, "resources/read");
    const types = { params: uriParams, result: anyResult };
    server.setRequestHandler("resources/read", types, async (params, ctx) => {
      const mount = mounts.mountOf(hrefOf(params.uri));
      const isAway = mount && (await isAbsent(callers, mount, { mcp, ctx }));
      return isAway ? asIfAbsent(() => read(params, ctx)) : read(params, ctx);
    });
  }

  const isAuthored = createAuthoredTest(mcp);
  const onSeen = attachSubscriptions(mcp, isOurs, parts);
  const mark = withRegistered ? registeredMark(streaming.maxReadBytes) : undefined;
  const list = resourcesHandler(listing, mcp, mark);
  server.setRequestHandler("resources/list", ({ params }, ctx) =>
    answerCacheable({ ctx }, () => list(params, ctx)),
  );
  const listTemplates = templatesHandler(listing, mcp, mark);
  server.setRequestHandler("resources/templates/list", ({ params }, ctx) =>
    answerCacheable({ ctx }, () => listTemplates(params, ctx)),
  );
  attachCompletion(mcp, parts);
  if (tools) attachTools(mcp, parts.tools, { tools: tools === true ? {} : tools, isOurs });

  // registered even with `stream: false`: another Sluice recognizes an attached server by this handler
  server.setRequestHandler(
    STREAM_METHOD,
    { params: uriParams, result: anyResult },
    async ({ uri }, ctx) => {
      if (!stream || !canStream(mcp, ctx)) throw methodNotFound("Method not found");
      const call = { mcp, ctx, uri, isOurs, isAuthored, readOthers, withRegistered };
      return streamResource(streaming, call);
    },
  );
  if (stream) {
    const types = { params: urisParams, result: anyResult };
    server.setRequestHandler(TREE_METHOD, types, async ({ uris }, ctx) => {
      if (!canStream(mcp, ctx)) throw methodNotFound("Method not found");
      return streamTree(streaming, { mcp, ctx, uris, isOurs });
    });
    declareStreaming(mcp);
  }
  checkParams(server);
  return isOurs;
}

/** A URI as the SDK compares it. */
function hrefOf(uri: string): string {
  return URL.canParse(uri) ? new URL(uri).href : uri;
}

/** Parameters of a method about one resource. */
const uriParams: StandardSchemaV1<{ uri: string }> = passing(
  () => z.looseObject({ uri: z.string({ error: "must be a string" }) }),
  ({ uri }) => typeof uri === "string",
);

/** Parameters of a method about several resources. */
const urisParams: StandardSchemaV1<{ uris: string[] }> = passing(
  () => z.looseObject({ uris: z.array(z.string(), { error: "must be a list of URIs" }) }),
  ({ uris }) => Array.isArray(uris) && uris.every((uri) => typeof uri === "string"),
);

/** Parameters of a method that lists. */
const cursorParams: StandardSchemaV1<{ cursor?: string | undefined }> = passing(
  () => z.looseObject({ cursor: z.optional(z.string({ error: "must be a string" })) }),
  ({ cursor }) => cursor === undefined || typeof cursor === "string",
);

/** Takes every result. Made once: schemas are large, and there is a server for each connection. */
const anyResult: z.ZodType<Record<string, unknown>> = z.looseObject({});

/** A schema that passes well-formed params on without a copy, as calls go through several. zod only words the fault. */
function passing<Params>(
  makeSchema: () => z.ZodType<Params>,
  isWellFormed: (params: { readonly [K in keyof Params]?: unknown }) => boolean,
): StandardSchemaV1<Params> {
  let schema: z.ZodType<Params> | undefined;
  return {
    "~standard": {
      version: 1,
      vendor: "sluice",
      validate: (value) =>
        isObject(value) && isWellFormed(value)
          ? { value: value as Params }
          : (schema ??= makeSchema())["~standard"].validate(value),
    },
  };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const checked = {
  "resources/read": uriParams,
  "resources/subscribe": uriParams,
  "resources/unsubscribe": uriParams,
  "resources/list": cursorParams,
  "resources/templates/list": cursorParams,
} as const;

/**
 * Rejects invalid parameters with -32602 and a sentence. Handlers of the SDK refuse them with -32603 and the text of
 * its validator.
 */
function checkParams(server: Server): void {
  for (const [method, params] of Object.entries(checked)) {
    const handler = findHandler(server, method);
    if (handler) server.setRequestHandler(method, { params, result: anyResult }, handler);
  }
}
