import { SluiceError } from "@sluice/core";
import { formatContentType } from "@sluice/core/internal";
import type { TransferResult } from "@sluice/server/internal";
import { findRefs } from "../peer/binary-refs.ts";
import type { Sending } from "../peer/peer.ts";
import { createDelimiter, joinBytes, randomBoundary } from "./boundary.ts";

interface OutgoingPart {
  readonly streamId: string;
  /** Visible ASCII, as `formatContentType` gives it. */
  readonly mimeType: string;
  /** Bytes that `body` gives. */
  readonly size: number;
  readonly body: ReadableStream<Uint8Array>;
}

/** A multipart message about to be sent. */
export interface OutgoingMultipart {
  readonly contentType: string;
  /** Of the whole message. */
  readonly contentLength: number;
  /** Where in the message the bytes of each part begin. */
  readonly offsets: readonly number[];
  /**
   * The message. Errors with `corrupt` or `interrupted` when a part has another size than it said
   * or holds the boundary, and with errors of its body. Cancelling it cancels the unsent parts.
   */
  readonly body: ReadableStream<Uint8Array>;
}

/**
 * Writes a `multipart/mixed` message: JSON first, then the parts, each with its `Content-ID` and its
 * `Content-Length`. Receivers may count or search: the boundary is random, and a part that holds it all the same,
 * because a peer echoes the current message, ends the message with an error.
 */
export function writeMultipart(json: string, parts: readonly OutgoingPart[]): OutgoingMultipart {
  const boundary = randomBoundary();
  const text = encoder.encode(json);
  const lead = encoder.encode(
    `--${boundary}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n`,
  );
  const heads = parts.map(({ streamId, mimeType, size }) =>
    encoder.encode(
      `\r\n--${boundary}\r\nContent-Type: ${mimeType}\r\nContent-ID: <${streamId}>\r\nContent-Length: ${size}\r\n\r\n`,
    ),
  );
  const end = encoder.encode(`\r\n--${boundary}--\r\n`);
  const offsets: number[] = [];
  let length = lead.length + text.length;
  for (const [at, { size }] of parts.entries()) {
    length += heads[at]!.length;
    offsets.push(length);
    length += size;
  }
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  let started = 0;

  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    yield lead;
    yield text;
    for (const [at, part] of parts.entries()) {
      yield heads[at]!;
      reader = part.body.getReader();
      started += 1;
      yield* watched(reader, part, boundary);
    }
    yield end;
  }

  const iterator = chunks();
  return {
    contentType: `multipart/mixed; boundary=${boundary}`,
    contentLength: length + end.length,
    offsets,
    body: new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            const { done, value } = await iterator.next();
            if (done) controller.close();
            else controller.enqueue(value);
          } catch (error) {
            discard(error);
            throw error;
          }
        },
        cancel: discard,
      },
      { highWaterMark: 0 },
    ),
  };

  function discard(reason: unknown): void {
    reader?.cancel(reason).catch(() => {});
    for (const { body } of parts.slice(started)) body.cancel(reason).catch(() => {});
  }
}

const encoder = new TextEncoder();

/** The bytes of a part: exactly its `size`, and never the boundary among them. */
async function* watched(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { streamId, size }: OutgoingPart,
  boundary: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const delimiter = createDelimiter(boundary);
  let sentBytes = 0;
  // the line end of the head
  let tail = encoder.encode("\r\n");
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    const { value } = step;
    sentBytes += value.length;
    if (sentBytes > size)
      throw new SluiceError("corrupt", `multipart: ${streamId} has more than its ${size} bytes`);
    // the boundary may begin in the chunk before
    const seam = joinBytes(tail, value.subarray(0, delimiter.bytes.length));
    if (delimiter.indexIn(seam) >= 0 || delimiter.indexIn(value) >= 0)
      throw new SluiceError(
        "corrupt",
        `multipart: ${streamId} repeats the boundary of its message`,
      );
    tail = joinBytes(tail, value.subarray(-delimiter.bytes.length)).slice(-delimiter.bytes.length);
    yield value;
  }
  if (sentBytes < size)
    throw new SluiceError(
      "interrupted",
      `multipart: ${streamId} ended at ${sentBytes} of ${size} bytes`,
    );
}

/** A message with the bytes that it refers to. */
export interface MultipartMessage extends OutgoingMultipart {
  /** Ends each stream with its share of the result. Call it once. */
  end(result: TransferResult): void;
}

/** Writes a message and its streams as one multipart message. The message names the type of each part. */
export function writeMessage({ text, streams }: Sending): MultipartMessage {
  const types = new Map(
    findRefs(JSON.parse(text)).map(({ holder, ref }) => [ref.streamId, holder["mimeType"]]),
  );
  const parts = streams.map(({ ref, source }) => {
    const mimeType = types.get(ref.streamId);
    return {
      streamId: ref.streamId,
      mimeType: formatContentType(typeof mimeType === "string" ? mimeType : undefined),
      size: ref.size,
      body: source.body,
    };
  });
  const written = writeMultipart(text, parts);
  return {
    ...written,
    end(result) {
      for (const [at, stream] of streams.entries()) {
        const passed = result.bytes - written.offsets[at]!;
        const bytes = Math.max(0, Math.min(passed, stream.ref.size));
        // the bytes after the part have gone out as well
        if (passed > stream.ref.size) stream.end({ outcome: "complete", bytes });
        else stream.end({ ...result, bytes });
      }
    },
  };
}

/** The body of a message, which ends the message itself: for platforms where a chunk that was read is as good as sent. */
export function reportingBody(message: MultipartMessage): ReadableStream<Uint8Array> {
  const reader = message.body.getReader();
  let bytes = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            message.end({ outcome: "complete", bytes });
            return controller.close();
          }
          bytes += value.length;
          controller.enqueue(value);
        } catch (error) {
          message.end({ outcome: "failed", bytes, error });
          throw error;
        }
      },
      async cancel(reason) {
        message.end({ outcome: "aborted", bytes });
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
