import type { IncomingMessage, ServerResponse } from "node:http";
import { toWebRequest, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";

/** Most bytes of a body that nobody wants which are still taken, so that the answer is read. */
const maxUnwantedBytes = 2 ** 20;
const maxUnwantedMs = 2_000;

/**
 * A web request whose body is not read before its reader asks. What is left of it when the answer is out is
 * drained within bounds, and then the connection is closed: it could not be used for another request.
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
  res.once("finish", () => drain(req));
  return new Request(request, { body: bodyOf(req), duplex: "half" } as RequestInit);
}

function bodyOf(req: IncomingMessage): ReadableStream<Uint8Array> {
  const chunks = req.iterator({ destroyOnReturn: false });
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = (await chunks.next()) as IteratorResult<Uint8Array>;
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel() {
        // what is under way is drained when the answer is out
      },
    },
    { highWaterMark: 0 },
  );
}

function drain(req: IncomingMessage): void {
  if (req.complete && req.readableEnded) return;
  let left = maxUnwantedBytes;
  const late = setTimeout(() => req.destroy(), maxUnwantedMs);
  req.on("data", (chunk: Uint8Array) => {
    left -= chunk.length;
    if (left < 0) req.destroy();
  });
  req.once("close", () => clearTimeout(late));
  req.resume();
}
