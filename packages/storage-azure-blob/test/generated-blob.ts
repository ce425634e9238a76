import type { IncomingMessage, ServerResponse } from "node:http";
import { formatContentRange, parseRange } from "@sluice/core/internal";
import { refuse } from "./http-service.ts";

/** A blob whose bytes are made when they are read, so that its size costs nothing. */
export interface GeneratedBlob {
  readonly size: number;
  /** The bytes at the very end; everything before is zero. */
  readonly tail?: Uint8Array;
}

const zeros = Buffer.alloc(256 * 1024);

/**
 * Answers a GET or HEAD of a blob as the service does: one range, 206 with its place, 416 with the
 * size, even for an empty blob. `onBytes` counts content as it leaves, no faster than the reader
 * takes it.
 */
export async function answerGenerated(
  { size, tail = new Uint8Array() }: GeneratedBlob,
  request: IncomingMessage,
  response: ServerResponse,
  onBytes: (bytes: number) => void = () => {},
): Promise<void> {
  const asked = request.headers["x-ms-range"] ?? request.headers.range;
  const range = parseRange(asked?.toString(), size);
  if (range === "unsatisfiable")
    return refuse(request, response, 416, "InvalidRange", {
      "content-range": formatContentRange({ size }),
    });
  const { start, end } = range ?? { start: 0, end: size };
  response.writeHead(range ? 206 : 200, {
    "content-length": end - start,
    "content-type": "application/octet-stream",
    ...(range && { "content-range": formatContentRange({ range, size }) }),
    etag: `"0x${size.toString(16)}"`,
    "last-modified": new Date(0).toUTCString(),
    "x-ms-blob-type": "BlockBlob",
  });
  const tailStart = size - tail.byteLength;
  for (let at = start; at < end && request.method === "GET" && !response.destroyed;) {
    const isTail = at >= tailStart;
    const last = Math.min(end, isTail ? size : tailStart, at + zeros.byteLength);
    const part = isTail
      ? tail.subarray(at - tailStart, last - tailStart)
      : zeros.subarray(0, last - at);
    onBytes(part.byteLength);
    at = last;
    if (!response.write(part)) await drained(response);
  }
  response.end();
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off("drain", done).off("close", done);
      resolve();
    };
    response.on("drain", done).on("close", done);
  });
}
