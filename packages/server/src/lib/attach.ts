import {
  ProtocolError,
  ResourceTemplate,
  Server,
  type ListResourcesResult,
  type McpServer,
  type ReadResourceResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { EXTENSION_ID, STREAM_METHOD } from "@sluice/core/wire";
import { z } from "zod";
import { eraOf } from "./client-streaming.ts";
import { listResources, streamableMark } from "./list-resources.ts";
import { readResource } from "./read-resource.ts";
import { faultOf, type RpcFault } from "./rpc-fault.ts";
import type { SluiceParts } from "./sluice-parts.ts";
import { streamResource } from "./stream-resource.ts";

/** Options of `attach`. */
export interface AttachOptions {
  /**
   * Whether to offer streaming. Pass false for a server over stdio, where SEP-2532 §4 has none:
   * list, read and templates remain. Default true.
   */
  readonly stream?: boolean;
}

/**
 * Wires a Sluice to a server that is not connected yet. The template goes through the SDK's own
 * registry, so reading keeps the SDK's order: resources the author registered come first. Only
 * listing is replaced, because the SDK's handler has no pages; the author's resources stay on its
 * first page.
 */
export function attach(parts: SluiceParts, mcp: McpServer, { stream = true }: AttachOptions): void {
  if (attached.get(mcp) === parts) return;
  const { server } = mcp;
  if (stream) server.assertCanSetRequestHandler(STREAM_METHOD);
  const { mapper, options } = parts;
  const probes = new WeakSet<ServerContext>();

  /** True when `resources/read` of this URI comes to our template, and is enabled. */
  async function isOurs(uri: string, ctx: ServerContext): Promise<boolean> {
    const probe = { ...ctx };
    probes.add(probe);
    const request = { method: "resources/read", params: { uri } } as const;
    const read = handlerOf(server, "resources/read");
    const answer = read({ jsonrpc: "2.0", id: ctx.mcpReq.id, ...request }, probe);
    return (await answer.catch(() => undefined)) === probed;
  }

  mcp.registerResource(
    mapper.baseUri,
    new ResourceTemplate(mapper.template, { list: undefined }),
    {
      ...(stream && streamableMark),
      ...(options.scopeChallenge && { scopeChallenge: options.scopeChallenge }),
    },
    async (uri, _variables, ctx): Promise<ReadResourceResult> => {
      if (probes.has(ctx)) return probed;
      return guarded(parts, { mcp, ctx, uri: uri.href }, () =>
        readResource(parts, { mcp, ctx, uri: uri.href, isOurs }),
      );
    },
  );

  const listRegistered = handlerOf(server, "resources/list");
  server.setRequestHandler("resources/list", (request, ctx) =>
    guarded(parts, { mcp, ctx }, async (): Promise<ListResourcesResult> => {
      const { cursor } = request.params ?? {};
      if (cursor?.startsWith(storageCursor))
        return tagged(await list(cursor.slice(storageCursor.length), ctx), storageCursor);
      if (cursor !== undefined && !cursor.startsWith(registeredCursor))
        throw new SluiceError("invalid_argument", "sluice: list: the cursor is not one of ours");
      const registered = (await listRegistered(
        {
          jsonrpc: "2.0",
          id: ctx.mcpReq.id,
          method: "resources/list",
          params: withCursor(request.params, cursor?.slice(registeredCursor.length)),
        },
        ctx,
      )) as ListResourcesResult;
      if (registered.nextCursor !== undefined) return tagged(registered, registeredCursor);
      const page = await list(undefined, ctx);
      return tagged(
        { ...registered, ...page, resources: [...registered.resources, ...page.resources] },
        storageCursor,
      );
    }),
  );
  const list = (cursor: string | undefined, ctx: ServerContext): Promise<ListResourcesResult> =>
    listResources(parts, { mcp, ctx, cursor, isStreaming: stream });

  if (stream) {
    server.setRequestHandler(
      STREAM_METHOD,
      { params: z.looseObject({ uri: z.string() }), result: z.looseObject({}) },
      async ({ uri }, ctx) => {
        const outcome = await streamResource(parts, { mcp, ctx, uri, isOurs });
        if (outcome.fault) throw toProtocolError(outcome.fault);
        return outcome.result;
      },
    );
    server.registerCapabilities({
      resources: { stream: true } as Record<string, boolean>,
      extensions: { [EXTENSION_ID]: {} },
    });
  }
  attached.set(mcp, parts);
}

const attached = new WeakMap<McpServer, SluiceParts>();

/** What our template's read gives when it is only asked whether a URI comes to it. */
const probed: ReadResourceResult = { contents: [] };

/** Pages are the author's first, then storage's; each cursor says whose it is and is passed on as it came. */
const registeredCursor = "r:";
const storageCursor = "s:";

function tagged(result: ListResourcesResult, tag: string): ListResourcesResult {
  if (result.nextCursor === undefined) return result;
  return { ...result, nextCursor: tag + result.nextCursor };
}

function withCursor(
  params: Readonly<Record<string, unknown>> = {},
  cursor: string | undefined,
): Record<string, unknown> {
  const { cursor: _ours, ...others } = params;
  return cursor === undefined ? others : { ...others, cursor };
}

type Handler = NonNullable<ReturnType<HandlerAccess["handler"]>>;

/** Reaches the SDK's accessor for stored handlers, which it keeps for role classes: `protected`. */
class HandlerAccess extends Server {
  handler(this: Server, method: string) {
    // oxlint-disable-next-line no-underscore-dangle -- the SDK's name
    return (this as HandlerAccess)._getRequestHandler(method);
  }
}

function handlerOf(server: Server, method: string): Handler {
  const handler = HandlerAccess.prototype.handler.call(server, method);
  if (!handler) throw new TypeError(`sluice: this SDK keeps no handler for ${method}`);
  return handler;
}

/** Runs a handler of a specified method; what it throws goes out as the error table says. */
async function guarded<Result>(
  parts: SluiceParts,
  { mcp, ctx, uri }: { mcp: McpServer; ctx: ServerContext; uri?: string },
  run: () => Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    // what the SDK or the author's own handlers throw is theirs
    if (error instanceof ProtocolError) throw error;
    const fault = faultOf(error, eraOf(mcp), {
      ...(uri !== undefined && { uri }),
      ...(SluiceError.is(error) &&
        error.code === "too_large" && { suggestion: "Use resources/stream for this resource" }),
    });
    if (fault.data.reason === "internal" && !ctx.mcpReq.signal.aborted) parts.onError(error);
    throw toProtocolError(fault);
  }
}

function toProtocolError({ code, message, data }: RpcFault): ProtocolError {
  return new ProtocolError(code, message, data);
}
