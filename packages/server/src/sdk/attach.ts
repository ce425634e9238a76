import {
  ResourceTemplate,
  type McpServer,
  type ReadResourceResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { STREAM_METHOD } from "@sluice/core/wire";
import { anyResult, checkParams, uriParams } from "./check-params.ts";
import { attachCompletion } from "./attach-completion.ts";
import { attachSubscriptions } from "../changes/attach-subscriptions.ts";
import { isStreaming } from "../delivery/is-streaming.ts";
import { attachList, cacheHint } from "../resources/list-resources.ts";
import { attachTemplates } from "../resources/list-templates.ts";
import { attachReadTool } from "../resources/read-tool.ts";
import type { BinaryReads } from "../resources/read-binary.ts";
import { readResource } from "../resources/read-resource.ts";
import { findElsewhere } from "./registered-elsewhere.ts";
import { streamableMark } from "../resources/resource-entry.ts";
import {
  askHandler,
  ensureReadScopes,
  findHandler,
  guarded,
  handlerOf,
  methodNotFound,
  toProtocolError,
} from "./sdk-handlers.ts";
import { isFromV1, serverInV2, type AnyMcpServer } from "./sdk-v1.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";
import { streamResource, type StreamCall } from "../delivery/stream-resource.ts";
import { declareStreaming } from "../delivery/streaming-offer.ts";

type IsOurs = StreamCall["isOurs"];

/** Options of `attach`. */
export interface AttachOptions {
  /**
   * Whether to offer streaming to clients over HTTP and WebSocket. Over stdio there is none (SEP-2532 §4), and nothing
   * declares it there. Default true.
   */
  readonly stream?: boolean;
  /**
   * Registers a tool of this name with which a model reads a resource piece by piece, such as
   * `"read_file"`. Default: none.
   */
  readonly readTool?: string;
  /**
   * Gives `resources/read` whole resources as bytes beside the answer, to who asks for them:
   * `binaryReads` of `@sluice/binary-transfer`. Default: everything is inside the JSON.
   */
  readonly binary?: BinaryReads;
}

/**
 * Wires a Sluice to a server that is not connected yet. The template goes through the SDK's own
 * registry, so reading keeps the SDK's order: resources the author registered come first.
 */
export function attach(parts: SluiceParts, given: AnyMcpServer, options: AttachOptions): void {
  const mcp = serverInV2(given);
  if (attached.get(mcp)?.parts === parts) return;
  const { server } = mcp;
  const { stream = true, readTool, binary } = options;
  const { mapper } = parts;
  const isV1 = isFromV1(mcp);
  if (isV1 && binary)
    throw new TypeError(
      "sluice: attach: SDK v1 does not tell a handler of what its connection negotiated, so binary transfer needs a McpServer of @modelcontextprotocol/server",
    );
  if (stream) server.assertCanSetRequestHandler(STREAM_METHOD);
  const probes = new WeakSet<ServerContext>();

  /** True when `resources/read` of this URI comes to our template, and is enabled. */
  async function isOurs(uri: string, ctx: ServerContext): Promise<boolean> {
    const probe = { ...ctx };
    probes.add(probe);
    const read = handlerOf(server, "resources/read");
    const answer = askHandler(read, "resources/read", { uri }, probe);
    return (await answer.catch(() => undefined)) === probed;
  }

  const hasCompletion = findHandler(server, "completion/complete") !== undefined;
  mcp.registerResource(
    mapper.baseUri,
    new ResourceTemplate(mapper.template, {
      list: undefined,
      // makes the SDK declare completions and set the handler that is put to use below
      ...(!hasCompletion && { complete: { key: () => [] } }),
    }),
    {
      description: `Any resource below ${mapper.baseUri} by its path`,
      ...(stream && streamableMark),
      ...(parts.options.scopeChallenge && { scopeChallenge: parts.options.scopeChallenge }),
    },
    async (uri, _variables, ctx): Promise<ReadResourceResult> => {
      if (probes.has(ctx)) return probed;
      return guarded(parts, { mcp, ctx, uri: uri.href }, async () => {
        // SDK v2 asks for scopes before it calls this
        if (isV1) await ensureReadScopes(mcp, ctx, uri.href);
        const call = { mcp, ctx, uri: uri.href, isOurs };
        const result = await readResource(parts, call, binary);
        subscriptions.onSeen(ctx);
        return { ...result, ...cacheHint(parts, mcp) };
      });
    },
  );

  const isElsewhere = findElsewhere(mcp);
  const subscriptions = attachSubscriptions(parts, mcp, isOurs);
  attachList(parts, mcp, { onListed: (ctx) => subscriptions.onSeen(ctx) });
  attachTemplates(parts, mcp, (ctx) => subscriptions.onSeen(ctx));
  attachCompletion(parts, mcp);
  if (readTool !== undefined) attachReadTool(parts, mcp, { name: readTool, isOurs });

  if (stream) {
    server.setRequestHandler(
      STREAM_METHOD,
      { params: uriParams, result: anyResult },
      async ({ uri }, ctx) => {
        if (!isStreaming(mcp, ctx)) throw methodNotFound("Method not found");
        const outcome = await streamResource(parts, { mcp, ctx, uri, isOurs, isElsewhere });
        if (outcome.fault) throw toProtocolError(outcome.fault);
        return outcome.result;
      },
    );
    declareStreaming(mcp);
  }
  checkParams(server);
  attached.set(mcp, { parts, isOurs });
}

interface Attachment {
  readonly parts: SluiceParts;
  readonly isOurs: IsOurs;
}

const attached = new WeakMap<McpServer, Attachment>();

/** The test for a server of this Sluice; a `TypeError` for any other server. */
export function isOursOn(parts: SluiceParts, mcp: McpServer): IsOurs {
  const attachment = attached.get(mcp);
  if (attachment?.parts === parts) return attachment.isOurs;
  throw new TypeError("sluice: link: the server has not been given to attach");
}

/** What our template's read gives when it is only asked whether a URI comes to it. */
const probed: ReadResourceResult = { contents: [] };
