import { ByteQueue, SluiceError } from "@sluice/core";
import type { BinaryRef } from "@sluice/core/wire";
import type { IncomingStream } from "../peer/incoming-stream.ts";
import type { Inbox } from "../peer/inbox.ts";
import { createEventLoopYield } from "../peer/event-loop-yield.ts";
import { malformed } from "./part-headers.ts";
import type { MultipartPart, MultipartReader } from "./read-multipart.ts";

/** Most bytes of parts that no message announced which are passed over. */
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
  const bytes = new Uint8Array(queue.bytes);
  let at = 0;
  for (let chunk = queue.shift(); chunk; chunk = queue.shift()) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return decodeUtf8(bytes);
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw malformed("JSON that is no UTF-8");
  }
}

/** What {@link receiveParts} works with. */
export interface ReceivePartsOptions {
  readonly inbox: Inbox;
  /** What the JSON announced. */
  readonly refs: readonly BinaryRef[];
  /** Gets what is wrong with a part that belongs to no transfer. */
  readonly onStray?: (error: SluiceError) => void;
}

/**
 * Gives the parts behind the JSON to the transfers that it announced, each at the pace of its reader. What is
 * wrong with a part ends its transfer, and the next part goes on. Resolves at the end of the message, or
 * as soon as what is left is not wanted; it never rejects. True when the message was read to its end.
 */
export async function receiveParts(
  reader: MultipartReader,
  { inbox, refs, onStray }: ReceivePartsOptions,
): Promise<boolean> {
  const missing = new Set(refs.map(({ streamId }) => streamId));
  let strayBytes = 0;

  function begin({ headers }: MultipartPart): IncomingStream | undefined {
    const { contentId, contentLength } = headers;
    try {
      if (contentId === undefined) throw malformed("a part without a Content-ID");
      const streamId = contentId.toLowerCase();
      const incoming = inbox.begin(streamId, contentLength);
      missing.delete(streamId);
      return incoming;
    } catch (error) {
      if (SluiceError.is(error)) onStray?.(error);
      return undefined;
    }
  }

  async function passOver(part: MultipartPart): Promise<void> {
    const isAnnounced = missing.delete((part.headers.contentId ?? "").toLowerCase());
    for (let chunk = await part.read(); chunk; chunk = await part.read()) {
      if (!isAnnounced) strayBytes += chunk.length;
      if (strayBytes > maxStrayBytes) throw malformed("parts that nothing announced");
    }
  }

  /** True when no transfer waits for what is left. */
  function isUnwanted(): boolean {
    return missing.size > 0 && ![...missing].some((streamId) => inbox.isExpected(streamId));
  }

  let incoming: IncomingStream | undefined;
  try {
    while (!isUnwanted()) {
      const part = await reader.next();
      if (!part) break;
      incoming = begin(part);
      if (!incoming) await passOver(part);
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

/** False when the transfer is over before its part is. */
async function receive(part: MultipartPart, incoming: IncomingStream): Promise<boolean> {
  const turn = createEventLoopYield();
  for (let chunk = await part.read(); chunk; chunk = await part.read()) {
    // waiting for a reader has let others have their turn
    const room = incoming.write(chunk) ?? turn(chunk.length);
    if (room) await room;
    if (incoming.isOver) return false;
  }
  incoming.end();
  return true;
}
