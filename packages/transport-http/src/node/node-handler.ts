import type { IncomingMessage, ServerResponse } from "node:http";
import { toWebRequest, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { definedMembers, parseJson, readTarget } from "@sluice/core";
import {
  addressShare,
  problem,
  refuseFields,
  shareRequest,
  type Reply,
} from "@sluice/server/transport";
import { createClientAddress } from "@sluice/server/node";
import { ensureHandler } from "../endpoint/ensure-arguments.ts";
import { authenticateFirst, type Authenticate } from "./authenticate-first.ts";
import { defaultMaxBodySize, tooLarge } from "../endpoint/json-body.ts";
import { callNext, dropRequestId, isOutsideEndpoint } from "./call-next.ts";
import { wireOf } from "./captured-answer.ts";
import { admit, endpointRoute, withHeaders, type Admission } from "../endpoint/router.ts";
import { drainBody, nodeBody } from "./node-body.ts";
import { createOffload, type OffloadOptions } from "../download/offload.ts";
import type { OutflowOptions } from "../download/outflow.ts";
import type { PlainRequest } from "../endpoint/plain-route.ts";
import { createRequestLimiter } from "./requests-per-address.ts";
import { NodePlainRequest } from "./node-plain-request.ts";
import type { NodeRequest } from "./node-request.ts";
import { startInOrder } from "./pipelined-response.ts";
import { askHandler, withCors } from "../endpoint/routed-handler.ts";
import { createUnsentAccount, type UnsentLimits } from "./unsent-answers.ts";
import { sendReply, type SendOptions } from "../download/send-reply.ts";
import { sendResponse } from "./send-response.ts";
import { BodyTooLargeError, toCollectedRequest, toStreamingRequest } from "./incoming-request.ts";
import { isReply, replyOf } from "../endpoint/web-response.ts";
import { HttpExchange } from "../endpoint/http-exchange.ts";
import { missingNext, type McpFetchHandler } from "../endpoint/sluice-handler.ts";

/** A request handler for `node:http` and for everything that passes its objects on, such as Express. */
export type NodeHandler = (req: NodeRequest, res: ServerResponse, next?: unknown) => void;

/** Options of {@link toNodeHandler}. */
export interface NodeHandlerOptions extends OutflowOptions {
  /** Largest JSON of a request, in bytes; more is answered with 413. Default: that of the handler, else 256 KiB. */
  readonly maxRequestBodySize?: number;
  /**
   * Middleware that verifies access tokens, such as `requireBearerAuth` of the SDK under Express: it calls `next`, or answers by
   * itself. Called with the route for every request that needs a bearer, and for no other: not for URLs that are
   * their own credential, preflights, and what is refused anyway. Default: none; what stands in front does it.
   */
  readonly authenticate?: Authenticate;
  /** Leave files to the nginx in front. Default: every byte goes through this process. */
  readonly offload?: OffloadOptions;
  /**
   * Number of trusted proxies in front, each of which appends to `X-Forwarded-For`: the address of the client is read from
   * the field for that many hops, and from nowhere else. Default 0: it is that of the socket. A request that by-passes
   * them can make its address up.
   */
  readonly proxyHops?: number;
  /**
   * Most requests of one address that are answered at once; more are refused with 429. An IPv6 address counts with its /64.
   * Default: no limit, for behind a proxy all may have one address: set it where `proxyHops` is right.
   */
  readonly maxRequestsPerAddress?: number;
  /** Most bytes of answers that wait for their readers; more are refused with 429 or 503, or end their connection. */
  readonly unsent?: UnsentLimits;
  /** Gets what broke outside of Sluice: in reading the request or in the handler. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Serves a handler over `node:http`. Bytes go straight from the file or stream to the socket, and
 * a body that breaks destroys the connection, where the SDK's own adapter ends it cleanly. Two `Host` fields and a target
 * in another than its one spelling are 400, before anything else looks at the request.
 */
export function toNodeHandler(
  handler: McpFetchHandler,
  options: NodeHandlerOptions = {},
): NodeHandler {
  ensureHandler("toNodeHandler", handler);
  const {
    maxRequestBodySize = handler.maxRequestBodySize ?? defaultMaxBodySize,
    authenticate,
    // oxlint-disable-next-line no-console -- the documented default
    onError = (error) => console.error("sluice:", error),
    offload: offloadOptions,
    proxyHops = 0,
    maxRequestsPerAddress,
    unsent: unsentLimits,
    ...outflowOptions
  } = options;
  const addressOf = createClientAddress(proxyHops);
  const mayAnswer = createRequestLimiter(maxRequestsPerAddress);
  const openUnsent = createUnsentAccount(unsentLimits);
  const offload = offloadOptions && createOffload(offloadOptions);

  async function serve(req: NodeRequest, res: ServerResponse, next: unknown): Promise<void> {
    dropRequestId(req);
    const target = req.originalUrl ?? req.url ?? "/";
    if (handler.isFront && handler.router) {
      if (typeof next !== "function") throw missingNext();
      if (isOutsideEndpoint(target, handler.router)) return void next();
    }
    const address = addressOf(req);
    if (!mayAnswer(res, address)) return answer(req, res, { reply: busy(), sending: {} });
    const sending = offload?.claim(req) ? { ...outflowOptions, offload } : outflowOptions;
    const plain = new NodePlainRequest(req, { target, address });
    const admission = admissionOf(req, plain);
    const { refusal } = admission;
    if (refusal) return answer(req, res, { reply: refusal, sending });
    const { route, cors } = admission;
    const isKnown =
      !authenticate ||
      route.credential === "url" ||
      (await authenticateFirst(authenticate, { req, res, route, cors }));
    if (!isKnown) return;
    if (route.answer) {
      const reply = withHeaders(await route.answer(plain), cors);
      return answer(req, res, { reply, sending });
    }
    if (unknownToFetch.has(plain.method)) return answer(req, res, { reply: refuseMethod, sending });

    const gone = new AbortController();
    res.once("close", () => {
      if (!res.writableFinished) gone.abort();
    });
    const { signal } = gone;
    const parsedBody = parsedBodyOf(req);
    let request: Request;
    let body: Uint8Array | undefined;
    if (isMultipart(req))
      request = await toStreamingRequest(req, res, { like: unmounted(req), signal });
    else if (parsedBody === undefined && mayHaveJson(req))
      ({ request, body } = await toCollectedRequest(req, {
        target,
        signal,
        maxBytes: maxRequestBodySize,
      }));
    else request = await toWebRequest(unmounted(req), parsedBody, { signal, maxRequestBodySize });
    const { unsent, answers } = openUnsent(res, clientOf(req, address));
    const exchange = new HttpExchange(request, { address, answers, unsent });
    exchange.carryTo(request);
    exchange.body = body;
    res.once("close", shareRequest(request));
    if (handler.router) exchange.route = route;
    if (handler.isFront) callNext(exchange, { req, res, next: next as () => void });
    const mcpOptions = definedMembers({ authInfo: req.auth || undefined, parsedBody });
    const answered = withCors(await askHandler(handler, request, mcpOptions, exchange), cors);
    const wire = wireOf(res);
    if (isReply(answered)) return sendReply(wire, answered, sending);
    const reply = replyOf(answered);
    return reply
      ? sendReply(wire, reply, sending)
      : sendResponse(wire, answered, { ...outflowOptions, unsent });
  }

  /** The client that unsent bytes are counted for. */
  function clientOf({ auth }: NodeRequest, address: string | undefined): string | undefined {
    if (auth) return `token ${auth.token}`;
    const share = maxRequestsPerAddress === undefined ? undefined : addressShare(address);
    return share && `address ${share}`;
  }

  /** The only look at what a request is addressed to: on what was sent, not on what URLs make of it. */
  function admissionOf(req: NodeRequest, plain: PlainRequest): Admission {
    const refusal = refuseFields(req.rawHeaders);
    if (refusal) return { refusal };
    if (handler.router) return admit(handler.router, plain);
    if (readTarget(plain.target) === undefined) return { refusal: problem(400) };
    return { route: endpointRoute, cors: [] };
  }

  return (req, res, next) => {
    startInOrder(res, req.socket, () => {
      serve(req, res, next).catch((error: unknown) => {
        const status = statusOf(error);
        const wire = wireOf(res);
        if (status === 500 && !res.destroyed) onError(error);
        if (wire.headersSent) wire.destroy();
        else if (status === 413)
          void answer(req, wire, { reply: tooLarge(maxRequestBodySize), sending: outflowOptions });
        else void sendReply(wire, problem(status, { headers: ["Connection", "close"] }));
      });
    });
  };
}

/** Methods that no web request can have. */
const unknownToFetch: ReadonlySet<string> = new Set(["CONNECT", "TRACE", "TRACK"]);
const refuseMethod = problem(405, { headers: ["Allow", "GET, POST, DELETE, OPTIONS"] });

function busy(): Reply {
  return problem(429, { headers: ["Retry-After", "1"] });
}

/** A body that is not read to its end ends with its connection. */
function answer(
  req: NodeRequest,
  res: ServerResponse,
  { reply, sending }: { reply: Reply; sending: SendOptions },
): Promise<void> {
  if (req.complete || reply.transfer || !nodeBody(req)) return sendReply(res, reply, sending);
  const isClosing = reply.headers.some((field) => field.toLowerCase() === "connection");
  const headers = isClosing ? reply.headers : [...reply.headers, "Connection", "close"];
  return sendReply(res, { ...reply, headers }, { ...sending, beforeEnd: () => drainBody(req) });
}

/** What the SDK's conversion reads; Express shortens `url` to what follows the mount path. */
function unmounted(req: NodeRequest): NodeIncomingMessageLike {
  const { method, headers, url, originalUrl = url } = req;
  return {
    ...definedMembers({ method, url: originalUrl }),
    headers,
    // a body that is too large must not take the connection with it: its sender is to hear of it
    [Symbol.asyncIterator]: () => req.iterator({ destroyOnReturn: false }),
  };
}

/** A body that middleware read: the stream is at its end, so only this is left of it. */
function parsedBodyOf({ body, readableEnded }: NodeRequest): unknown {
  if (body === undefined || !readableEnded) return undefined;
  if (typeof body !== "string" && !(body instanceof Uint8Array)) return body;
  try {
    return parseJson(Buffer.from(body).toString("utf8"));
  } catch {
    return undefined;
  }
}

/** A body with bytes beside its JSON, which is not collected. */
function isMultipart({ method, headers }: IncomingMessage): boolean {
  return method === "POST" && /^multipart\/mixed\b/i.test(headers["content-type"] ?? "");
}

/** A message of JSON-RPC, or what a layer refuses as none by its type. */
function mayHaveJson({ method, headers }: IncomingMessage): boolean {
  return method === "POST" && headers["content-type"] !== undefined;
}

function statusOf(error: unknown): number {
  if (error instanceof BodyTooLargeError) return 413;
  if (error instanceof Error && error.name === "RequestBodyTooLargeError") return 413;
  // a Host or target that no URL can be made of
  if (error instanceof TypeError && (error as { code?: unknown }).code === "ERR_INVALID_URL")
    return 400;
  return 500;
}
