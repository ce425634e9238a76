import { SluiceError, type FetchLike } from "@sluice/core";
import { abortable, parseMediaType } from "@sluice/core/internal";
import { createDocumentFraming, createEventFraming, createLineFraming } from "./scan/framing.ts";
import { MessageSpooler, type SpoolLimits } from "./message-spooler.ts";
import type { SpooledStrings } from "./spooled-string.ts";

/** How messages lie in the bytes: one JSON document, lines (stdio), or server-sent events. */
type MessageFraming = "document" | "lines" | "events";

/** Options of {@link createJsonSpooler}. */
export interface JsonSpoolerOptions extends SpoolLimits {
  readonly framing: MessageFraming;
}

/** Replaces long strings of messages while they come. Calls must wait for each other. */
export interface JsonSpooler {
  readonly spooled: SpooledStrings;
  /**
   * Takes bytes and gives the messages that end in them; one without long strings is what came, byte for byte. Rejects
   * with `too_large` or `protocol` for what no response can stand for, or with the signal's reason; its files are gone then.
   */
  write(chunk: Uint8Array): Promise<Uint8Array[]>;
  /** Gives what came of a message without an end, as it is. A document ends here. */
  end(): Promise<Uint8Array[]>;
  /** Removes the files of the message under way. Idempotent. */
  abort(): Promise<void>;
}

/**
 * Makes a spooler for one stream. Of each response, values longer than `inlineBytes` are written to files and replaced by
 * markers, which `rewriteSpooled` finds in `spooled`. Memory does not grow with them: only the rest is kept until the
 * message is whole. A response that passes a limit becomes a JSON-RPC error with its id. Malformed JSON passes on, and
 * leaves no file.
 */
export function createJsonSpooler(options: JsonSpoolerOptions): JsonSpooler {
  const framing = framings[options.framing]();
  const message = new MessageSpooler(options, framing);
  let running: Promise<unknown> = Promise.resolve();
  let isOver = false;

  async function run(work: () => Promise<Uint8Array[]>): Promise<Uint8Array[]> {
    const result = isOver ? Promise.resolve([]) : work();
    running = result.catch(() => {});
    try {
      return await result;
    } catch (error) {
      isOver = true;
      await message.abort();
      throw error;
    }
  }

  async function take(slice: Uint8Array): Promise<Uint8Array[]> {
    options.signal?.throwIfAborted();
    const output: Uint8Array[] = [];
    for (const piece of isOver ? [] : framing.split(slice))
      if (piece.kind === "json") await message.json(piece.bytes);
      else if (piece.kind === "frame") await message.frame(piece.bytes);
      else output.push(await message.finish(true));
    return output;
  }

  return {
    spooled: options.spooled,
    write: (chunk) =>
      run(async () => {
        const output: Uint8Array[] = [];
        for (let at = 0; at < chunk.length; at += sliceBytes)
          output.push(...(await take(chunk.subarray(at, at + sliceBytes))));
        return output;
      }),
    end: () =>
      run(async () => {
        const rest = await message.finish(options.framing === "document");
        return rest.length > 0 ? [rest] : [];
      }),
    async abort() {
      isOver = true;
      await running;
      await message.abort();
    },
  };
}

const framings = {
  document: createDocumentFraming,
  lines: createLineFraming,
  events: createEventFraming,
};

/** Decoded copies are no larger, however large the chunks are. */
const sliceBytes = 65_536;

/**
 * Wraps the `fetch` of a client's transport: long strings of JSON and of server-sent events go to files before the SDK
 * parses the response. Other bodies pass and may have `maxMessageBytes`. A body fails with the error of the spooler.
 */
export function spooledFetch(fetch: FetchLike, options: SpoolLimits): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!response.body) return response;
    const framing = framingOf(response.headers);
    const body = framing
      ? spooledBody(response.body, createJsonSpooler({ ...options, framing }))
      : boundedBody(response.body, options.maxMessageBytes ?? 32 * 2 ** 20);
    return answerWith(response, body);
  };
}

function framingOf(headers: Headers): MessageFraming | undefined {
  const type = parseMediaType(headers.get("content-type"))?.essence;
  if (type === "application/json") return "document";
  return type === "text/event-stream" ? "events" : undefined;
}

function spooledBody(
  source: ReadableStream<Uint8Array>,
  spooler: JsonSpooler,
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  let isCancelled = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          for (;;) {
            const { done, value } = await reader.read();
            if (isCancelled) return;
            const output = done ? await spooler.end() : await spooler.write(value);
            if (isCancelled) return;
            for (const bytes of output) controller.enqueue(bytes);
            if (done) controller.close();
            if (done || output.length > 0) return;
          }
        } catch (error) {
          await spooler.abort();
          reader.cancel(error).catch(() => {});
          throw error;
        }
      },
      async cancel(reason) {
        isCancelled = true;
        await Promise.allSettled([reader.cancel(reason), spooler.abort()]);
      },
    },
    { highWaterMark: 0 },
  );
}

function boundedBody(
  source: ReadableStream<Uint8Array>,
  maxBytes: number,
): ReadableStream<Uint8Array> {
  let bytes = 0;
  return source.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length;
        if (bytes > maxBytes)
          throw new SluiceError(
            "too_large",
            `bridge: the server sent a body of more than ${maxBytes} bytes that is not a message`,
          );
        controller.enqueue(chunk);
      },
    }),
  );
}

/** The same response with another body, whose length is not known. */
function answerWith(response: Response, body: ReadableStream<Uint8Array>): Response {
  const { status, statusText, url } = response;
  const headers = new Headers(response.headers);
  headers.delete("content-length");
  const answer = new Response(body, { status, statusText, headers });
  // a made one has none, and relative addresses are resolved against it
  Object.defineProperty(answer, "url", { value: url });
  return answer;
}

/**
 * The same for newline-delimited JSON, such as the stdout of a child process: gives one line at a time, with its end.
 * Rejects with the error of the spooler or of the source, or with the signal's reason.
 */
export async function* spooledLines(
  source: AsyncIterable<Uint8Array>,
  options: SpoolLimits,
): AsyncGenerator<Uint8Array, void, undefined> {
  const spooler = createJsonSpooler({ ...options, framing: "lines" });
  const chunks = source[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await abortable(chunks.next(), options.signal);
      if (done) break;
      yield* await spooler.write(value);
    }
    yield* await spooler.end();
  } finally {
    await spooler.abort();
    // a source that waits for its next chunk ends by itself
    void chunks.return?.().catch(() => {});
  }
}
