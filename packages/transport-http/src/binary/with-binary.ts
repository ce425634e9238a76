import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import {
  type BinaryPeer,
  boundaryOf,
  callOf,
  createBinaryPeer,
  opensExchange,
  readJsonPart,
  readMultipart,
  type Received,
  receiveParts,
} from "@sluice/binary-transfer/internal";
import { SluiceError } from "@sluice/core";
import {
  BINARY_EXTENSION_ID,
  namesMethod,
  type RpcCall,
  ThroughputBudget,
} from "@sluice/core/internal";
import { problem } from "@sluice/server/internal";
import { errorResponse, toResponse } from "../endpoint/web-response.ts";
import { HttpExchange } from "../endpoint/http-exchange.ts";
import { defaultMaxBodySize, readJsonBody } from "../endpoint/json-body.ts";
import { createRoutedHandler } from "../endpoint/routed-handler.ts";
import type { McpFetchHandler } from "../endpoint/sluice-handler.ts";
import { createSessionCapabilities } from "../sessions/session-memory.ts";
import { answerWithBytes } from "./multipart-answer.ts";

/** Limits of `binary` of `createHandler`. */
export interface BinaryOptions {
  /** Largest transfer in bytes, either way. Default 1 GiB. */
  readonly maxBinaryBytes?: number;
  /** Transfers beside one message. Default 16. */
  readonly maxStreams?: number;
  /** Bytes of one transfer that wait for their reader. Default 1 MiB. */
  readonly windowBytes?: number;
  /** Milliseconds without a byte, or with bytes that are not read, that end a transfer. Default 30,000. */
  readonly idleMs?: number;
  /**
   * Largest JSON in bytes, alone or as the first part of a request; more is answered with 413. Default: that of `handler`,
   * else 4 MiB. Raise it for tools with large arguments.
   */
  readonly maxRequestBodySize?: number;
  /**
   * Maximum bytes that go into an event as base64, for tools that say something before their result: such a response
   * cannot have parts any more. More is the error `too_large`. Default 8 MiB.
   */
  readonly maxBase64Bytes?: number;
}

interface BinaryExchange {
  readonly http: HttpExchange;
  readonly request: Request;
  readonly call: RpcCall;
  readonly mcpOptions: McpHandlerRequestOptions | undefined;
  /** The parts behind the call, where it came as multipart. */
  readonly parts?: MultipartRequest;
}

/**
 * Lets bytes go beside JSON in `multipart/mixed` requests and responses (Binary Transfer RFC, option B), with clients that
 * declare it on the request or on its session. Handlers find them with `openBinary` and
 * give them with `binaryContent`. It goes around the layer of Sluice. Every other exchange goes to `handler` untouched.
 */
export function withBinary<Handler extends McpFetchHandler>(
  handler: Handler,
  options: BinaryOptions = {},
): Handler {
  const {
    maxBinaryBytes = 2 ** 30,
    maxRequestBodySize = handler.maxRequestBodySize ?? defaultMaxBodySize,
    maxBase64Bytes = 2 ** 23,
    ...limits
  } = options;
  const sessions = createSessionCapabilities(pickDeclaration);

  async function exchange({
    http,
    request,
    call,
    mcpOptions,
    parts,
  }: BinaryExchange): Promise<Response> {
    const peer = createBinaryPeer({
      ...limits,
      role: "server",
      mode: "multipart",
      maxBinaryBytes,
      declared: sessions.of(request.headers.get("mcp-session-id")),
    });
    const done = (): void => {
      parts?.stop();
      peer.close(new SluiceError("interrupted", "http: the exchange is over"));
    };
    try {
      const received = receivedBy(peer, call);
      if (!received) {
        done();
        return errorResponse(400, malformedReference, { id: call.id });
      }
      if (!peer.terms && !opensExchange(call)) {
        done();
        // bytes of a client that did not declare any
        return parts ? toResponse(problem(415)) : await handler.fetch(request, mcpOptions);
      }
      parts?.receive(peer, received.refs);
      const { message } = received;
      const inner = await handler.fetch(request, { ...mcpOptions, parsedBody: message });
      if (call.method === "initialize")
        sessions.remember(call, inner.headers.get("mcp-session-id"), http.sessionOwner);
      return await answerWithBytes(inner, { call, peer, maxBase64Bytes, done });
    } catch (error) {
      done();
      throw error;
    }
  }

  /** A request of several parts, with a plain one in its place for the SDK. */
  async function receive(
    request: Request,
    boundary: string,
    mcpOptions: McpHandlerRequestOptions | undefined,
    http: HttpExchange,
  ): Promise<Response> {
    let parts: MultipartRequest;
    try {
      parts = await readMultipartRequest(request.body!, boundary, maxRequestBodySize);
    } catch (error) {
      const refusalStatus = refusalOf(error);
      if (refusalStatus === undefined) throw error;
      return toResponse(problem(refusalStatus));
    }
    const { url, method, signal } = request;
    const { call } = parts;
    const headers = new Headers(request.headers);
    headers.set("content-type", "application/json");
    headers.delete("content-length");
    const plain = new Request(url, { method, headers, signal, body: JSON.stringify(call) });
    http.tie(plain);
    return exchange({ http, request: plain, call, mcpOptions, parts });
  }

  async function serve(
    request: Request,
    given: McpHandlerRequestOptions | undefined,
    http: HttpExchange,
  ): Promise<Response> {
    const boundary =
      request.method === "POST" ? boundaryOf(request.headers.get("content-type")) : undefined;
    if (boundary !== undefined && request.body) return receive(request, boundary, given, http);
    const { mcpOptions, refusal } = await readJsonBody(request, given, maxRequestBodySize);
    if (refusal) return refusal;
    const call = request.method === "POST" ? mcpOptions?.parsedBody : undefined;
    if (namesMethod(call)) return exchange({ http, request, call, mcpOptions });
    const response = await handler.fetch(request, mcpOptions);
    const sessionId = request.headers.get("mcp-session-id");
    if (request.method === "DELETE" && sessionId !== null && response.ok)
      sessions.forget(sessionId);
    return response;
  }

  const { router } = handler;
  const fetch: McpFetchHandler["fetch"] = (request, given) =>
    serve(request, given, HttpExchange.of(request));
  const routed = router ? createRoutedHandler(router, serve) : { fetch };
  return { ...handler, ...routed, maxRequestBodySize };
}

/** What a legacy client declares once for its session. */
function pickDeclaration({
  binaryTransfer,
  extensions,
}: Readonly<Record<string, unknown>>): object | undefined {
  const ours = (extensions as Record<string, unknown> | undefined)?.[BINARY_EXTENSION_ID];
  if (ours !== undefined) return { extensions: { [BINARY_EXTENSION_ID]: ours } };
  return binaryTransfer === undefined ? undefined : { binaryTransfer };
}

/** A call as handlers get it; `undefined` for one with references that cannot be read. */
function receivedBy(peer: BinaryPeer, call: RpcCall): Received<RpcCall> | undefined {
  try {
    return peer.received(call);
  } catch (error) {
    if (SluiceError.is(error) && error.code === "protocol") return undefined;
    throw error;
  }
}

const malformedReference = {
  code: -32_602,
  message: "Invalid params: a reference to bytes is malformed",
  data: { reason: "invalid" },
};

/** The status for a request that could not be read; `undefined` for a fault that is not the sender's. */
function refusalOf(error: unknown): 400 | 408 | 413 | undefined {
  if (!SluiceError.is(error)) return undefined;
  if (error.code === "too_large") return 413;
  if (error.code === "timeout") return 408;
  return error.code === "protocol" || error.code === "interrupted" ? 400 : undefined;
}

/** A request of several parts, as far as its JSON was read. */
interface MultipartRequest {
  readonly call: RpcCall;
  /** Gives the parts to the transfers that the call announced. */
  receive(peer: BinaryPeer, refs: Parameters<typeof receiveParts>[1]["refs"]): void;
  stop(): void;
}

/** How long the JSON part may take. */
const headMs = 30_000;

/** Reads the beginning of a request. Rejects with `protocol`, `too_large`, `timeout` or `interrupted`. */
export async function readMultipartRequest(
  body: ReadableStream<Uint8Array>,
  boundary: string,
  maxJsonBytes: number,
): Promise<MultipartRequest> {
  const source = body.getReader();
  const stop = (): void => void source.cancel().catch(() => {});
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    stop();
  }, headMs);
  try {
    const reader = readMultipart(readAtPace(source), boundary);
    const call = callOf(await readJsonPart(reader, maxJsonBytes));
    if (!call) throw new SluiceError("protocol", "http: the first part is not a JSON-RPC request");
    return {
      call,
      receive(peer, refs) {
        void receiveParts(reader, { inbox: peer.inbox, refs }).then(
          (isThrough) => isThrough || stop(),
        );
      },
      stop,
    };
  } catch (error) {
    stop();
    throw isLate ? new SluiceError("timeout", "http: the JSON did not come in time") : error;
  } finally {
    clearTimeout(timer);
  }
}

/** Milliseconds of waiting for less than 4 KiB a second. */
const graceMs = 20_000;

/** The chunks of a body. A sender that is waited for too long for too little is given up with `timeout`. */
function readAtPace(
  source: ReadableStreamDefaultReader<Uint8Array>,
): () => Promise<Uint8Array | undefined> {
  const budget = new ThroughputBudget(graceMs);
  return async () => {
    const at = performance.now();
    const { value } = await source.read().catch((cause: unknown) => {
      throw new SluiceError("interrupted", "http: the body ended before its end", { cause });
    });
    // the time before the reader asks is its own
    budget.spend(performance.now() - at, value?.length ?? 0);
    if (budget.leftMs < 0) throw new SluiceError("timeout", "http: the body comes too slowly");
    return value;
  };
}
