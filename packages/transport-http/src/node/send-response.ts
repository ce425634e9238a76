import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { isEventStream, LISTEN_METHOD, METHOD_HEADER } from "@sluice/core/internal";
import { problemOf, type ByteLease } from "@sluice/server/internal";
import { NodeExchange } from "./node-exchange.ts";
import { createOutflow, type Outflow, type OutflowOptions } from "../download/outflow.ts";
import { sendReply, untilTaken } from "../download/send-reply.ts";

/**
 * Sends a web response other than a reply of ours: JSON and event streams of MCP. A body that breaks,
 * or has another length than its header says, destroys the connection, and so does a reader that
 * takes too little of what there is. An event stream may be silent for any time. `unsent` counts the bytes
 * that wait: without room for them a response is refused, and an event stream ends with its connection.
 */
export async function sendResponse(
  res: ServerResponse,
  response: Response,
  options: OutflowOptions & { readonly unsent: ByteLease },
): Promise<void> {
  const { body, headers } = response;
  if (res.destroyed) return body?.cancel();
  if (!body) {
    writeHead(res, response);
    res.end();
    return untilTaken(res, options);
  }
  const reader = body.getReader();
  res.once("close", () => void reader.cancel().catch(() => {}));
  if (isEventStream(headers)) {
    writeHead(res, response);
    res.flushHeaders();
    if (isEndless(res.req)) NodeExchange.of(res.req).endOnDrain(() => res.end());
    return pump(res, { reader, headers, options });
  }
  let first: Chunk;
  try {
    first = await reader.read();
    if (first.value) options.unsent.add(first.value.byteLength);
  } catch (error) {
    reader.cancel(error).catch(() => {});
    return sendReply(res, problemOf(error));
  }
  if (res.destroyed) return;
  writeHead(res, response);
  return pump(res, { reader, first, headers, options });
}

type Chunk = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]>>;

interface Pumping {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  /** Read, and counted, already. */
  readonly first?: Chunk;
  readonly headers: Headers;
  readonly options: OutflowOptions & { readonly unsent: ByteLease };
}

async function pump(
  res: ServerResponse,
  { reader, first, headers, options }: Pumping,
): Promise<void> {
  const { unsent } = options;
  const promised = headers.get("content-length");
  const outflow = createOutflow(res, options, { mayPause: true });
  let sentBytes = 0;
  try {
    for (let next = first; ; next = undefined) {
      const { done, value } = next ?? (await reader.read());
      if (outflow.isBroken || res.writableEnded) return;
      if (done) break;
      if (!next) unsent.add(value.byteLength);
      sentBytes += value.byteLength;
      if (promised !== null && sentBytes > Number(promised)) return void res.destroy();
      await writePieces(value, outflow, unsent);
    }
    if (promised !== null && sentBytes < Number(promised)) res.destroy();
    else await outflow.end();
  } catch {
    // the stream's maker knows why it broke; the receiver must see that it did
    res.destroy();
  } finally {
    outflow.dispose();
  }
}

/** In pieces, so that the account of unsent bytes shrinks while a large chunk leaves. */
async function writePieces(chunk: Uint8Array, outflow: Outflow, unsent: ByteLease): Promise<void> {
  for (let at = 0; at < chunk.byteLength && !outflow.isBroken; at += pieceBytes) {
    const piece = chunk.subarray(at, at + pieceBytes);
    outflow.write(piece, () => unsent.sub(piece.byteLength));
    await outflow.untilFewerThan(2);
  }
}

const pieceBytes = 2 ** 16;

function writeHead(res: ServerResponse, { status, headers }: Response): void {
  const fields: OutgoingHttpHeaders = Object.fromEntries(headers);
  const cookies = headers.getSetCookie();
  if (cookies.length > 0) fields["set-cookie"] = cookies;
  // the SDK says keep-alive in events; what becomes of a connection is known here, where a last response has to say so
  if (fields["connection"] !== "close") delete fields["connection"];
  res.writeHead(status, fields);
}

/** True for event streams that last as long as the client listens: it reopens them when they end. */
function isEndless({ method, headers: asked }: IncomingMessage): boolean {
  return method === "GET" || asked[METHOD_HEADER] === LISTEN_METHOD;
}
