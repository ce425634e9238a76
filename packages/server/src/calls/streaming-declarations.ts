import {
  CLIENT_CAPABILITIES_META_KEY,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import {
  type ClientStreaming,
  definedMembers,
  type DeliveryMode,
  deliveryModes,
  EXTENSION_ID,
  treeBounds,
  treeBoundsIn,
} from "@sluice/core/internal";
import { notesOf, type ReplySlot } from "./exchange.ts";
import { revisionOf } from "./request-caller.ts";
import { findHandler, type SdkHandler } from "./sdk-handlers.ts";

/**
 * Whether resources can be streamed to the client that sent a request: the server offers it, and the call came in an
 * HTTP request, or over a WebSocket that one opened. SEP-2532 §4 has no streaming over stdio.
 */
export function canStream(mcp: McpServer, ctx: ServerContext): boolean {
  const { extensions } = mcp.server.getCapabilities();
  return ctx.http !== undefined && extensions?.[EXTENSION_ID] !== undefined;
}

/**
 * What the client declared about streams on this request or, in a session revision, on this session; `undefined` if it
 * declared nothing. The SDK drops the literal field of `initialize`; the slot has it, if the transport saw that
 * `initialize`.
 *
 * `"unknown"` if the server cannot tell: a session revision declares in `initialize`, which a server without sessions
 * does not remember. Such a client gets a download URL, which is JSON and needs no declaration. Throws
 * `invalid_argument` for a `maxStreamSize` that is not a number of bytes.
 */
export function clientStreaming(
  mcp: McpServer,
  ctx: ServerContext,
  slot?: Pick<ReplySlot, "capabilities">,
): ClientStreaming | "unknown" | undefined {
  const { envelope, _meta } = ctx.mcpReq as {
    [K in "envelope" | "_meta"]?: Record<string, unknown>;
  };
  const ofRequest =
    envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? _meta?.[CLIENT_CAPABILITIES_META_KEY];
  if (ofRequest !== undefined || revisionOf(mcp) === "modern") return declaredIn(ofRequest);
  const ofSession = mcp.server.getClientCapabilities();
  const streaming = declaredIn(ofSession) ?? declaredIn(slot?.capabilities);
  if (streaming) return streaming;
  // the SDK drops the literal field, so if there is a slot, only that shows whether the client declared nothing
  const isKnown = slot ? slot.capabilities !== undefined : ofSession !== undefined;
  return isKnown ? undefined : "unknown";
}

/** The declaration in a set of client capabilities: the extension first, the literal field second. */
function declaredIn(capabilities: unknown): ClientStreaming | undefined {
  if (!isObject(capabilities)) return undefined;
  const extensions = capabilities["extensions"];
  const declaration =
    (isObject(extensions) ? extensions[EXTENSION_ID] : undefined) ??
    capabilities["resourceStreaming"];
  if (!isObject(declaration)) return undefined;
  const { maxStreamSize, prefer } = declaration;
  if (maxStreamSize !== undefined && !(typeof maxStreamSize === "number" && maxStreamSize >= 0))
    throw new SluiceError("invalid_argument", "sluice: maxStreamSize must be a number of bytes");
  return definedMembers({
    maxStreamSize,
    prefer: Array.isArray(prefer) ? prefer.filter(isDeliveryMode) : undefined,
    tree: treeBoundsIn(declaration),
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isDeliveryMode(value: unknown): value is DeliveryMode {
  return deliveryModes.some((mode) => mode === value);
}

/** Declares streaming on a server that is not connected yet, to clients that {@link canStream} is true of. */
export function declareStreaming(mcp: McpServer): void {
  const { server } = mcp;
  server.registerCapabilities({
    resources: { stream: true } as Record<string, boolean>,
    extensions: { [EXTENSION_ID]: { tree: { ...treeBounds } } },
  });
  const set = server.setRequestHandler.bind(server) as (method: string, handler: unknown) => void;
  const declare = (method: string, handler: SdkHandler): void =>
    set(method, async ({ params }: { readonly params?: object }, ctx: ServerContext) => {
      const answer = await handler(params, ctx);
      if (!canStream(mcp, ctx)) return withStreaming(answer, undefined);
      // a lasting connection has no HTTP response for bytes
      return notesOf(ctx.http?.req).isLasting === true ? withStreaming(answer, {}) : answer;
    });
  for (const method of declaring) {
    const handler = findHandler(server, method);
    if (handler) declare(method, handler);
  }
  // the SDK sets the handler of `server/discover` when it knows the revision of the client
  server.setRequestHandler = (method: string, ...given: readonly unknown[]) => {
    (set as (...all: readonly unknown[]) => void)(method, ...given);
    if (declaring.includes(method)) declare(method, findHandler(server, method)!);
  };
}

/** Methods whose answers declare capabilities: of the session revision and of the stateless one. */
const declaring: readonly string[] = ["initialize", "server/discover"];

/** The answer with another content of our extension, or without streaming. */
function withStreaming(
  answer: Record<string, unknown>,
  declaration: object | undefined,
): Record<string, unknown> {
  const { resources, extensions, ...capabilities } = answer["capabilities"] as Record<
    string,
    object
  >;
  const { stream, ...otherResources } = resources as Record<string, unknown>;
  const { [EXTENSION_ID]: _own, ...others } = extensions as Record<string, unknown>;
  const extensionsNow = declaration ? { ...others, [EXTENSION_ID]: declaration } : others;
  return {
    ...answer,
    capabilities: {
      ...capabilities,
      resources: declaration ? { ...otherResources, stream } : otherResources,
      ...(Object.keys(extensionsNow).length > 0 && { extensions: extensionsNow }),
    },
  };
}
