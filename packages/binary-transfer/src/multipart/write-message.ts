import { formatContentType } from "@sluice/core/internal";
import type { TransferResult } from "@sluice/server/internal";
import { findRefs } from "../peer/binary-refs.ts";
import type { Sending } from "../peer/peer.ts";
import { writeMultipart, type OutgoingMultipart } from "./write-multipart.ts";

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
