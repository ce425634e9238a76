import { SluiceError } from "@sluice/core";
import { type BinaryRef, ByteQueue } from "@sluice/core/internal";
import type { IncomingStream } from "../peer/incoming-stream.ts";
import type { Inbox } from "../peer/inbox.ts";
import { malformed, type PartHeaders } from "./boundary.ts";
import type { MultipartPart, MultipartReader } from "./read-multipart.ts";

/** Maximum bytes skipped in parts that no message announced. */
const maxStrayBytes = 2 ** 20;

/** The JSON text that a message begins with. Throws `protocol` when another part is the first, and `too_large`. */
export async function readJsonPart(reader: MultipartReader, maxBytes: number): Promise<string> {
  const part = await reader.next();
  if (part?.headers.mimeType !== "application/json")
    throw malformed("a message without JSON first");
  // a sender may chop it into single bytes
  const queue = new ByteQueue();
  for (let chunk = await part.read(); chunk; chunk = await part.read()) {
    if (queue.bytes + chunk.length > maxBytes)
      throw new SluiceError("too_large", `multipart: the JSON has more than ${maxBytes} bytes`);
    queue.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(queue.join());
  } catch {
    throw malformed("JSON that is not UTF-8");
  }
}

/**
 * Gives the parts after the JSON to the transfers that it announced (`refs`), each at the pace of
 * its reader. A fault in a part ends its transfer, and the next part continues. Resolves at the end
 * of the message, or as soon as the rest is not wanted; it never rejects. True when the message was
 * read to its end.
 */
export async function receiveParts(
  reader: MultipartReader,
  { inbox, refs }: { readonly inbox: Inbox; readonly refs: readonly BinaryRef[] },
): Promise<boolean> {
  const missing = new Set(refs.map(({ streamId }) => streamId));
  let strayBytes = 0;

  /** The transfer of a part; `undefined` if no message announced it, or it has ended. */
  function begin({ headers }: MultipartPart): IncomingStream | undefined {
    try {
      return inbox.begin(streamIdOf(headers), headers.contentLength);
    } catch {
      return undefined;
    }
  }

  async function passOver(part: MultipartPart, isAnnounced: boolean): Promise<void> {
    for (let chunk = await part.read(); chunk; chunk = await part.read()) {
      if (!isAnnounced) strayBytes += chunk.length;
      if (strayBytes > maxStrayBytes) throw malformed("parts that nothing announced");
    }
  }

  /** True when no transfer waits for the rest. */
  function isUnwanted(): boolean {
    return missing.size > 0 && ![...missing].some((streamId) => inbox.isExpected(streamId));
  }

  let incoming: IncomingStream | undefined;
  try {
    while (!isUnwanted()) {
      const part = await reader.next();
      if (!part) break;
      incoming = begin(part);
      const isAnnounced = missing.delete(streamIdOf(part.headers));
      if (!incoming) await passOver(part, isAnnounced);
      else if (!(await receive(part, incoming)) && missing.size === 0) return false;
    }
    if (isUnwanted()) return false;
    for (const streamId of missing)
      inbox.fail(streamId, malformed(`no part for stream ${streamId}`));
    return true;
  } catch (error) {
    incoming?.close(error);
    for (const streamId of missing) inbox.fail(streamId, error);
    return false;
  }
}

function streamIdOf({ contentId = "" }: PartHeaders): string {
  return contentId.toLowerCase();
}

/** False when the transfer ends before its part. */
async function receive(part: MultipartPart, incoming: IncomingStream): Promise<boolean> {
  let bytes = 0;
  for (let chunk = await part.read(); chunk; chunk = await part.read()) {
    bytes += chunk.length;
    const room = incoming.write(chunk);
    if (room) {
      await room;
      bytes = 0;
    } else if (bytes >= bytesATurn && setImmediate) {
      await new Promise<void>((resolve) => void setImmediate(resolve));
      bytes = 0;
    }
    if (incoming.isOver) return false;
  }
  incoming.end();
  return true;
}

/**
 * Bytes that are taken in one turn of the event loop: if a socket always has more, Node reads up to
 * 32 times before it looks at anything else, which was 2 MiB. Browsers read sockets on another
 * thread.
 */
const bytesATurn = 2 ** 18;
const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => unknown };
