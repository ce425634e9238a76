import type { IncomingMessage, ServerResponse } from "node:http";
import { toWebRequest, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import type { AuthInfo } from "@modelcontextprotocol/server";
import { endBody, nodeBody } from "./node-body.ts";
import { SluiceError } from "@sluice/core";
import type { ByteLease } from "@sluice/server/internal";
import type { RequestBody } from "../endpoint/plain-route.ts";
import { smallJsonBytes } from "./handler-limits.ts";

/** What middleware in front may have put on a request. */
export type NodeRequest = IncomingMessage & {
  /** Access token it verified. */
  auth?: AuthInfo;
  /** Body it parsed. */
  body?: unknown;
  /** URL before a mount path was taken off. */
  originalUrl?: string;
};

interface CollectedRequest {
  readonly request: Request;
  readonly body?: Uint8Array;
}

interface CollectOptions {
  /** Path and query as they were sent, before a mount path was taken off. */
  readonly target: string;
  readonly signal: AbortSignal;
  /** Maximum bytes of the body. */
  readonly maxBytes: number;
  /** Lease for the bytes beyond `smallJsonBytes`. */
  readonly excess: ByteLease;
}

/** Too many large bodies are in progress: of this client (429), or of all (503). */
export class BusyError extends Error {
  override readonly name = "BusyError";
  readonly status: 429 | 503;

  constructor(cause: unknown) {
    super("http: too many large requests are in progress", { cause });
    this.status = SluiceError.is(cause) && cause.code === "throttled" ? 429 : 503;
  }
}

/** A body has more bytes than the server takes. */
export class BodyTooLargeError extends Error {
  override readonly name = "BodyTooLargeError";
}

/**
 * A request with a body as a web request, and the body for the layer that reads its JSON. Equivalent to the SDK's
 * `toWebRequest`, which needlessly decodes and re-encodes the body. Rejects with a {@link BodyTooLargeError}, with a
 * {@link BusyError}, and when the connection closes within the body.
 */
export async function toCollectedRequest(
  req: IncomingMessage,
  { target, signal, maxBytes, excess }: CollectOptions,
): Promise<CollectedRequest> {
  const { host = req.headers[":authority"] ?? "localhost" } = req.headers;
  if (Number(req.headers["content-length"]) > maxBytes) throw new BodyTooLargeError();
  const pieces = await collect(req, { maxBytes, excess });
  // most calls come in one piece
  const body = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
  const request = new Request(`http://${String(host)}${target}`, {
    method: req.method!,
    headers: webHeaders(req),
    signal,
    body: body.byteLength > 0 ? body : null,
  });
  return { request, body };
}

/** The pieces of a body. One that is too large leaves the connection open, so that its sender hears of it. */
function collect(
  req: IncomingMessage,
  { maxBytes, excess }: Pick<CollectOptions, "maxBytes" | "excess">,
): Promise<Uint8Array[]> {
  return new Promise((resolve, reject) => {
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    const settle = (): void => {
      req.off("data", onData).off("end", onEnd).off("error", fail).off("close", onClose);
    };
    const fail = (error: unknown): void => {
      settle();
      req.pause();
      reject(error);
    };
    const onData = (chunk: Uint8Array | string): void => {
      // text, where middleware has set an encoding
      const piece =
        typeof chunk === "string" ? Buffer.from(chunk, req.readableEncoding ?? "utf8") : chunk;
      bytes += piece.byteLength;
      if (bytes > maxBytes) return fail(new BodyTooLargeError());
      try {
        excess.add(Math.max(0, Math.min(piece.byteLength, bytes - smallJsonBytes)));
      } catch (error) {
        return fail(new BusyError(error));
      }
      pieces.push(piece);
    };
    const onEnd = (): void => {
      settle();
      resolve(pieces);
    };
    const onClose = (): void => fail(new Error("http: the connection closed within a body"));
    // middleware read the body, and left nothing of it
    if (req.readableEnded) return resolve(pieces);
    if (req.destroyed) return onClose();
    req.on("data", onData).on("end", onEnd).on("error", fail).on("close", onClose);
  });
}

/** The header as Node read it, without the pseudo fields of HTTP/2. */
function webHeaders({ headers }: IncomingMessage): Headers {
  const fields = new Headers();
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined || name.startsWith(":")) continue;
    if (typeof value === "string") fields.set(name, value);
    else for (const each of value) fields.append(name, each);
  }
  return fields;
}

/**
 * A POST as a web request whose body is not collected: it comes as it is read. If part of it is unread when the
 * response is finished, the connection is closed, since it cannot carry another request.
 */
export async function toStreamingRequest(
  req: IncomingMessage,
  res: ServerResponse,
  { like, signal }: { readonly like: NodeIncomingMessageLike; readonly signal: AbortSignal },
): Promise<Request> {
  const headless = { ...like, async *[Symbol.asyncIterator]() {} };
  // the SDK's limit is for bodies that are collected
  const maxRequestBodySize = Number.MAX_SAFE_INTEGER;
  const request = await toWebRequest(headless, undefined, { signal, maxRequestBodySize });
  const body = nodeBody(req);
  if (!body) return request;
  res.once("finish", () => void endBody(req));
  return new Request(request, { method: "POST", body: streamOf(body), duplex: "half" });
}

/** A body as a stream that is one chunk ahead of its reader. */
function streamOf(body: RequestBody): ReadableStream<Uint8Array> {
  const stopped = new AbortController();
  let goOn: (() => void) | undefined;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      body
        .read((chunk) => {
          controller.enqueue(chunk);
          return new Promise<void>((resolve) => (goOn = resolve));
        }, stopped.signal)
        .then(
          // a cancelled stream is closed already
          () => void (stopped.signal.aborted || controller.close()),
          (error: unknown) => controller.error(error),
        );
    },
    pull: () => goOn?.(),
    cancel: (reason) => stopped.abort(reason),
  });
}
