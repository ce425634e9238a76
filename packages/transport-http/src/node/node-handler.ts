import type { IncomingMessage, ServerResponse } from "node:http";
import type { AuthInfo, VerifyBearerTokenOptions } from "@modelcontextprotocol/server";
import { toWebRequest, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import {
  definedMembers,
  parseJson,
  readLimits,
  readTarget,
  type ClientLimits,
} from "@sluice/core/internal";
import {
  addressShare,
  problem,
  refuseFields,
  shareRequest,
  type Reply,
} from "@sluice/server/internal";
import { createClientAddress } from "@sluice/server/internal/node";
import { createBearerCheck } from "./bearer.ts";
import { defaultMaxBodySize, tooLarge } from "../endpoint/json-body.ts";
import { offerNext, dropSharedRequestHeader, isOutsideEndpoint } from "./call-next.ts";
import { wireOf } from "./captured-answer.ts";
import {
  admit,
  endpointRoute,
  withHeaders,
  type Admission,
  type Route,
  allowOf,
} from "../endpoint/router.ts";
import { drainBody, endBody, nodeBody } from "./node-body.ts";
import { Offload, type OffloadOptions } from "../download/offload.ts";
import type { OutflowOptions } from "../download/outflow.ts";
import type { PlainRequest, RequestBody } from "../endpoint/plain-route.ts";
import { askHandler, withCors } from "../endpoint/routed-handler.ts";
import { Connection, startInOrder } from "./connection.ts";
import {
  createLargeJsonLeases,
  createRequestGate,
  createUnsentLeases,
  type HttpClient,
} from "./handler-limits.ts";
import { sendReply, type SendOptions } from "../download/send-reply.ts";
import { sendResponse } from "./send-response.ts";
import {
  BodyTooLargeError,
  BusyError,
  type NodeRequest,
  toCollectedRequest,
  toStreamingRequest,
} from "./incoming-request.ts";
import { isReply, replyOf } from "../endpoint/web-response.ts";
import { HttpExchange } from "../endpoint/http-exchange.ts";
import { ensureHandler, type McpFetchHandler, missingNext } from "../endpoint/sluice-handler.ts";

/** A request handler for `node:http` and for everything that passes its objects on, such as Express. */
export type NodeHandler = (req: NodeRequest, res: ServerResponse, next?: unknown) => void;

/**
 * Verifies the access token of a request: sets `req.auth` and calls `next`, or sends the response itself; after that
 * `next` is ignored. What it throws or gives to `next` is a fault, and 500 to the client.
 */
// bivariant, so that middleware of Express fits, which gets its own request and response there
type Authenticate = Middleware["verify"];

interface Middleware {
  verify(
    req: NodeRequest,
    res: ServerResponse,
    next: (error?: unknown) => void,
    route: Route,
  ): unknown;
}

/** Options of {@link toNodeHandler}. */
export interface NodeHandlerOptions extends OutflowOptions {
  /** Largest JSON of a request, in bytes; more is answered with 413. Default: that of the handler, else 4 MiB. */
  readonly maxRequestBodySize?: number;
  /**
   * Middleware that verifies access tokens, such as `requireBearerAuth` of the SDK under Express: it calls `next`, or answers by
   * itself. Called with the route for every request that needs a bearer, and for no other: not for URLs that are
   * their own credential, preflights, and what is refused anyway. Default: none; what stands in front does it.
   */
  readonly authenticate?: Authenticate;
  /**
   * How access tokens are verified, in place of `authenticate` and without Express: options of the SDK's `verifyBearerToken`,
   * such as `{ verifier }`.
   */
  readonly bearer?: VerifyBearerTokenOptions;
  /** Leave files to the nginx in front. Default: every byte goes through this process. */
  readonly offload?: OffloadOptions;
  /**
   * Maximum requests of one address that are answered at once; more are refused with 429. The address is that of `clientAddress` of
   * the Sluice, or of the socket for a handler without one. Default: no limit, for behind a proxy all may have one address.
   */
  readonly requests?: Pick<ClientLimits, "perAddress">;
  /**
   * Maximum bytes of responses that wait for their readers, of all connections; more are refused with 429 or 503, or end their
   * connection. `perPrincipal` counts by access token. `perAddress` counts requests without one, and only if
   * `requests.perAddress` is set. One response alone may be larger. Default: 64 MiB, 64 MiB, and 256 MiB for this handler.
   */
  readonly bufferedBytes?: ClientLimits;
  /** Gets what broke outside of Sluice: in reading the request or in the handler. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Serves a handler over `node:http`. Bytes go straight from the file or stream to the socket, and a body that breaks
 * destroys the connection, where the SDK's own adapter ends it cleanly. A second `Host` field and a target that is not
 * in canonical spelling are answered with 400 before a route or the handler sees the request.
 */
export function toNodeHandler(
  handler: McpFetchHandler,
  options: NodeHandlerOptions = {},
): NodeHandler {
  ensureHandler("toNodeHandler: the first argument", handler);
  const {
    maxRequestBodySize = handler.maxRequestBodySize ?? defaultMaxBodySize,
    bearer,
    authenticate = bearer && createBearerCheck(bearer),
    // oxlint-disable-next-line no-console -- the documented default
    onError = (error) => console.error("sluice:", error),
    offload: offloadOptions,
    requests,
    bufferedBytes,
    ...outflowOptions
  } = options;
  if (bearer && options.authenticate)
    throw new TypeError("toNodeHandler: pass authenticate or bearer, and not both");
  if (authenticate && handler.router?.routes("/")?.isOpenByDefault)
    throw new TypeError(
      "toNodeHandler: authenticate and bearer do not guard the files page, to which browsers send no access token, and it would " +
        "show the files to everyone on this machine: pass principal to createSluice, or anonymous: true if they may see them",
    );
  const { proxyHops = 0, addressOf } = handler.router?.clients ?? {};
  const readAddress = createClientAddress(proxyHops);
  const { perAddress } = readLimits("toNodeHandler: requests", requests, noRequestLimits);
  const mayAnswer = createRequestGate(perAddress);
  const openUnsent = createUnsentLeases(bufferedBytes);
  const openExcess = createLargeJsonLeases();
  const offload = offloadOptions && new Offload(offloadOptions);

  async function serve(req: NodeRequest, res: ServerResponse, next: unknown): Promise<void> {
    dropSharedRequestHeader(req);
    const target = req.originalUrl ?? req.url ?? "/";
    if (handler.isFront && handler.router) {
      if (typeof next !== "function") throw missingNext();
      if (isOutsideEndpoint(target, handler.router)) return void next();
    }
    const address = readAddress(req);
    const plain = new NodePlainRequest(req, { target, address });
    const client = addressOf ? addressOf(plain) : address;
    if (!mayAnswer(res, client)) return sendAndClose(req, res, { reply: busy(), sending: {} });
    const sending = offload?.cameThroughProxy(req)
      ? { ...outflowOptions, offload }
      : outflowOptions;
    const admission = admissionOf(req, plain);
    if (admission.reply) return sendAndClose(req, res, { reply: admission.reply, sending });
    const { route, cors } = admission;
    const isKnown =
      !authenticate ||
      route.credential === "url" ||
      (await authenticateFirst(authenticate, { req, res, route, cors }));
    if (!isKnown) return;
    if (route.answer) {
      const reply = withHeaders(await route.answer(plain), cors);
      return sendAndClose(req, res, { reply, sending });
    }
    if (unknownToFetch.has(plain.method))
      return sendAndClose(req, res, { reply: refuseMethod, sending });

    const closing = new AbortController();
    res.once("close", () => {
      if (!res.writableFinished) closing.abort();
    });
    const { signal } = closing;
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
        excess: openExcess(res, clientOf(req, client)),
      }));
    else request = await toWebRequest(unmounted(req), parsedBody, { signal, maxRequestBodySize });
    const { unsent, sentListener } = openUnsent(res, clientOf(req, client));
    const exchange = new HttpExchange(request, { address, sentListener, unsent });
    exchange.tie(request);
    exchange.body = body;
    res.once("close", shareRequest(request));
    // the layers inside rely on it and do not route again
    if (handler.router) exchange.route = route;
    if (handler.isFront) offerNext(exchange, { req, res, next: next as () => void });
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
  function clientOf({ auth }: NodeRequest, address: string | undefined): HttpClient | undefined {
    if (auth) return { name: `token ${auth.token}`, isPrincipal: true };
    const share = perAddress === undefined ? undefined : addressShare(address);
    return share === undefined ? undefined : { name: `address ${share}`, isPrincipal: false };
  }

  /** Judges a request by its target as it was sent, before a URL parser can change it. */
  function admissionOf(req: NodeRequest, plain: PlainRequest): Admission {
    const refusal = refuseFields(req.rawHeaders);
    if (refusal) return { reply: refusal };
    if (handler.router) return admit(handler.router, plain);
    if (readTarget(plain.target) === undefined) return { reply: problem(400) };
    return { route: endpointRoute, cors: [] };
  }

  function faultReply(status: number): Reply {
    if (status === 413) return tooLarge(maxRequestBodySize);
    if (status === 429 || status === 503) return problem(status, later);
    return problem(status, { headers: ["Connection", "close"] });
  }

  return (req, res, next) => {
    startInOrder(res, req.socket, () => {
      serve(req, res, next).catch((error: unknown) => {
        const status = statusOf(error);
        const wire = wireOf(res);
        if (status === 500 && !res.destroyed) onError(error);
        if (wire.headersSent) wire.destroy();
        else void sendAndClose(req, wire, { reply: faultReply(status), sending: outflowOptions });
      });
    });
  };
}

const noRequestLimits: { readonly perAddress: number | undefined } = { perAddress: undefined };

/** Methods that no web request can have. */
const unknownToFetch: ReadonlySet<string> = new Set(["CONNECT", "TRACE", "TRACK"]);
const refuseMethod = problem(405, { headers: ["Allow", allowOf(endpointRoute.cors)] });

const later = { headers: ["Retry-After", "1"] };

function busy(): Reply {
  return problem(429, later);
}

/** Sends a reply, and closes the connection if the body of the request was not read to its end. */
function sendAndClose(
  req: NodeRequest,
  res: ServerResponse,
  { reply, sending }: { reply: Reply; sending: SendOptions },
): Promise<void> {
  if (req.complete || reply.transfer || !nodeBody(req)) return sendReply(res, reply, sending);
  const isClosing = reply.headers.some((field) => field.toLowerCase() === "connection");
  const headers = isClosing ? reply.headers : [...reply.headers, "Connection", "close"];
  return sendReply(res, { ...reply, headers }, { ...sending, beforeEnd: () => drainBody(req) });
}

/** True if the middleware accepts the request, false if it has responded. Allowed pages may read its responses. */
async function authenticateFirst(
  authenticate: Authenticate,
  request: {
    readonly req: NodeRequest;
    readonly res: ServerResponse;
    readonly route: Route;
    readonly cors: readonly string[];
  },
): Promise<boolean> {
  const { req, res, route, cors } = request;
  for (let at = 0; at < cors.length; at += 2) res.setHeader(cors[at]!, cors[at + 1]!);
  return new Promise<boolean>((resolve, reject) => {
    const onClose = (): void => resolve(false);
    // if the hook responds: Node would go on reading the rest of a refused body
    const onFinish = (): void => void endBody(req);
    const settle = (): void => void res.off("close", onClose);
    res.once("close", onClose).once("finish", onFinish);
    const next = (error?: unknown): void => {
      settle();
      if (!res.headersSent) res.off("finish", onFinish);
      // a response that was sent counts, whatever `next` is called with
      if (error === undefined || error === null) resolve(!res.headersSent);
      else reject(error);
    };
    // async middleware may reject
    Promise.resolve(authenticate(req, res, next, route)).catch((error: unknown) => {
      settle();
      reject(error);
    });
  });
}

/**
 * A request of `node:http` as plain values. A class rather than closures, because every response with bytes makes one.
 */
class NodePlainRequest implements PlainRequest {
  readonly method: string;
  /** Names come from us, never from the request; lists are joined by Node already. */
  readonly header: (name: string) => string | undefined;
  readonly target: string;
  readonly address: string | undefined;
  readonly signal: AbortSignal;
  readonly body: RequestBody | undefined;
  readonly #req: NodeRequest;

  constructor(req: NodeRequest, { target, address }: Pick<PlainRequest, "target" | "address">) {
    this.method = req.method ?? "GET";
    this.target = target;
    this.address = address;
    this.signal = Connection.of(req.socket).signalOf(req.socket);
    this.body = nodeBody(req);
    this.header = (name) => {
      const value = req.headers[name];
      return typeof value === "string" ? value : undefined;
    };
    this.#req = req;
  }

  /** A getter, for `authenticate` may set it later. */
  get authInfo(): AuthInfo | undefined {
    return this.#req.auth;
  }
}

/** What the SDK's conversion reads; Express shortens `url` to what follows the mount path. */
function unmounted(req: NodeRequest): NodeIncomingMessageLike {
  const { method, headers, url, originalUrl = url } = req;
  return {
    ...definedMembers({ method, url: originalUrl }),
    headers,
    // keep the connection of a body that is too large, so that its sender gets the 413
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

/** Whether the body may be JSON-RPC. Layers reject other media types themselves. */
function mayHaveJson({ method, headers }: IncomingMessage): boolean {
  return method === "POST" && headers["content-type"] !== undefined;
}

function statusOf(error: unknown): number {
  if (error instanceof BodyTooLargeError) return 413;
  if (error instanceof BusyError) return error.status;
  if (error instanceof Error && error.name === "RequestBodyTooLargeError") return 413;
  // a Host or target that no URL can be made of
  if (error instanceof TypeError && (error as { code?: unknown }).code === "ERR_INVALID_URL")
    return 400;
  return 500;
}
