import type { IncomingMessage, ServerResponse } from "node:http";
import { toWebRequest, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { endBody, nodeBody } from "./node-body.ts";
import type { RequestBody } from "../endpoint/plain-route.ts";

/**
 * A POST as a web request whose body is not collected: it comes as it is read. What is left of it when the answer is out
 * ends with the connection, which could not be used for another request.
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
  const body = nodeBody(req, res);
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
          // nothing is left to close of what its reader cancelled
          () => void (stopped.signal.aborted || controller.close()),
          (error: unknown) => controller.error(error),
        );
    },
    pull: () => goOn?.(),
    cancel: (reason) => stopped.abort(reason),
  });
}
