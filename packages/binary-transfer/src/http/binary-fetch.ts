import { SluiceError, type FetchLike } from "@sluice/core";
import {
  type BinaryRef,
  eventsIn,
  isEventStream,
  readRpc,
  type RpcCall,
} from "@sluice/core/internal";
import { boundaryOf } from "../multipart/boundary.ts";
import { readMultipart, type MultipartReader } from "../multipart/read-multipart.ts";
import { readJsonPart, receiveParts } from "../multipart/receive-parts.ts";
import { reportingBody, writeMessage } from "../multipart/write-multipart.ts";
import { CLIENT_CAPABILITIES, isObject, opensExchange } from "../peer/negotiation.ts";
import type { BinaryLimits } from "../peer/inbox.ts";
import { outletTo, type Outlet } from "../peer/outlet.ts";
import { createBinaryPeer, type BinaryPeer, type Sending } from "../peer/peer.ts";
import { callOf, isAnswerTo } from "./rpc-call.ts";

/** Options of {@link createBinaryFetch}. */
export interface BinaryFetchOptions extends BinaryLimits {
  /** Sends the requests. Default: the platform's own fetch. */
  readonly fetch?: FetchLike;
  /** Largest JSON part in bytes. Default 16 MiB. */
  readonly maxJsonBytes?: number;
}

/** Multipart messages below one HTTP transport of an SDK. */
export interface BinaryFetch {
  /** For the `fetch` option of the transport. */
  readonly fetch: FetchLike;
  /** Where bytes can go beside a request, for `binaryContent`; `undefined` while the server takes none. */
  readonly outlet: Outlet | undefined;
  /** Ends what is outstanding. */
  close(): void;
}

/**
 * Lets bytes go beside JSON in `multipart/mixed` requests and responses (Binary Transfer RFC, option B), where the
 * server declares that, below the HTTP transport of an SDK, version 1 or 2. The SDK sees JSON as ever;
 * `readBinary` and `openBinary` give the bytes. Make one for each transport.
 *
 * A request with bytes can be sent once: when the server answers it with 401, the SDK's second try fails.
 */
export function createBinaryFetch(options: BinaryFetchOptions = {}): BinaryFetch {
  const {
    fetch = globalThis.fetch,
    maxBinaryBytes = 2 ** 30,
    maxJsonBytes = 2 ** 24,
    ...limits
  } = options;
  const peer = createBinaryPeer({ ...limits, role: "client", mode: "multipart", maxBinaryBytes });

  async function receive(response: Response, boundary: string): Promise<Response> {
    const reader = response.body!.getReader();
    try {
      const message = readMultipart(() => readChunk(reader), boundary);
      const text = await readJsonPart(message, maxJsonBytes);
      const { message: forSdk, refs } = peer.received(parse(text));
      void receiveRest(message, refs, reader);
      return jsonOf(response, forSdk);
    } catch (error) {
      reader.cancel(error).catch(() => {});
      throw error;
    }
  }

  async function receiveRest(
    message: MultipartReader,
    refs: readonly BinaryRef[],
    reader: ReadableStreamDefaultReader<Uint8Array>,
  ): Promise<void> {
    if (await receiveParts(message, { inbox: peer.inbox, refs })) return;
    await reader.cancel().catch(() => {});
  }

  /** Reads the server's declaration from the response to an opening request. */
  async function note(call: RpcCall, response: Response): Promise<Response> {
    const { body, headers } = response;
    const type = headers.get("content-type") ?? "";
    if (!body || !response.ok) return response;
    if (type.startsWith("application/json")) {
      const message: unknown = await response.json();
      return jsonOf(response, isAnswerTo(message, call) ? heard(message as object) : message);
    }
    if (!isEventStream(headers)) return response;
    const reading = { operation: "binary", maxEventLength: maxJsonBytes };
    for await (const { message } of eventsIn(body, reading))
      if (message && isAnswerTo(message, call)) return jsonOf(response, heard(message));
    throw new SluiceError("interrupted", `binary: ${call.method}: no response came`);
  }

  function heard(message: object): object {
    return peer.received(message).message;
  }

  return {
    async fetch(url, init) {
      const call = init?.method === "POST" ? callIn(init) : undefined;
      if (!init || !call) return fetch(url, init);
      const response = await send(fetch, url, init, peer.sending(volunteer(call, peer)));
      const boundary = boundaryOf(response.headers.get("content-type"));
      if (boundary !== undefined && response.body) return receive(response, boundary);
      return opensExchange(call) ? note(call, response) : response;
    },
    get outlet() {
      return outletTo(peer);
    },
    close: () => peer.close(new SluiceError("interrupted", "binary: the transport was closed")),
  };
}

function callIn({ body }: RequestInit): RpcCall | undefined {
  return typeof body === "string" ? callOf(body) : undefined;
}

/** Methods whose answers can have bytes beside them. */
const answeredWithBytes: ReadonlySet<string> = new Set([
  "resources/read",
  "tools/call",
  "prompts/get",
]);

/** Declares again on these requests: a legacy server without sessions forgets what `initialize` declared. */
function volunteer(call: RpcCall, peer: BinaryPeer): RpcCall {
  if (!peer.terms || !answeredWithBytes.has(call.method)) return call;
  const { params = {} } = call;
  const meta = isObject(params["_meta"]) ? params["_meta"] : {};
  if (CLIENT_CAPABILITIES in meta) return call;
  return { ...call, params: { ...params, _meta: { ...meta, [CLIENT_CAPABILITIES]: {} } } };
}

/** Sends a message, with the bytes that it refers to as parts behind it. */
async function send(
  fetch: FetchLike,
  url: string | URL,
  init: RequestInit,
  sending: Sending,
): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("accept", `${headers.get("accept") ?? "*/*"}, multipart/mixed`);
  if (sending.streams.length === 0) return fetch(url, { ...init, headers, body: sending.text });
  const message = writeMessage(sending);
  headers.set("content-type", message.contentType);
  try {
    const body = reportingBody(message);
    return await fetch(url, { ...init, headers, body, duplex: "half" });
  } catch (error) {
    message.end({ outcome: "aborted", bytes: 0, error });
    throw error;
  }
}

async function readChunk(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): Promise<Uint8Array | undefined> {
  const { value } = await reader.read().catch((cause: unknown) => {
    throw new SluiceError("interrupted", "binary: the connection broke within an answer", {
      cause,
    });
  });
  return value;
}

function parse(text: string): object {
  const { message } = readRpc(text);
  if (message) return message;
  throw new SluiceError(
    "protocol",
    "binary: the server sent a part that is not a JSON-RPC message",
  );
}

/** The response as an SDK reads it, with the facts of the headers beside the body. */
function jsonOf({ status, statusText, headers }: Response, message: unknown): Response {
  const fields = new Headers(headers);
  for (const name of ["content-length", "content-encoding", "transfer-encoding"])
    fields.delete(name);
  fields.set("content-type", "application/json");
  return new Response(JSON.stringify(message), { status, statusText, headers: fields });
}
