import { createDocumentFraming, createEventFraming, createLineFraming } from "./scan/framing.ts";
import { createMessageSpooler, type SpoolLimits } from "./message-spooler.ts";
import type { SpooledStrings } from "./spooled-string.ts";

/** How messages lie in the bytes: one JSON document, lines (stdio), or server-sent events. */
export type MessageFraming = "document" | "lines" | "events";

/** Options of {@link createJsonSpooler}. */
export interface JsonSpoolerOptions extends SpoolLimits {
  readonly framing: MessageFraming;
}

/** Replaces long strings of messages while they come. Calls must wait for each other. */
export interface JsonSpooler {
  /** Strings of the messages it gave. */
  readonly spooled: SpooledStrings;
  /**
   * Takes bytes and gives the messages that end in them; one without long strings is what came, byte for byte. Rejects
   * with `too_large` or `protocol` for what no answer can stand for, or with the signal's reason; its files are gone then.
   */
  write(chunk: Uint8Array): Promise<Uint8Array[]>;
  /** Gives what came of a message without an end, as it is. A document ends here. */
  end(): Promise<Uint8Array[]>;
  /** Removes the files of the message under way. Idempotent. */
  abort(): Promise<void>;
}

/**
 * Makes a spooler for one stream. Of each answer, values longer than `inlineBytes` are written to files and replaced by
 * markers, which `rewriteSpooled` finds in `spooled`. Memory does not grow with them: only the rest is kept until the
 * message is whole. An answer that passes a limit becomes a JSON-RPC error with its id. Malformed JSON passes on, and
 * leaves no file.
 */
export function createJsonSpooler(options: JsonSpoolerOptions): JsonSpooler {
  const framing = framings[options.framing]();
  const message = createMessageSpooler(options, framing);
  let running: Promise<unknown> = Promise.resolve();
  let isOver = false;

  async function run(work: () => Promise<Uint8Array[]>): Promise<Uint8Array[]> {
    const given = isOver ? Promise.resolve([]) : work();
    running = given.catch(() => {});
    try {
      return await given;
    } catch (error) {
      isOver = true;
      await message.abort();
      throw error;
    }
  }

  async function take(slice: Uint8Array): Promise<Uint8Array[]> {
    options.signal?.throwIfAborted();
    const given: Uint8Array[] = [];
    for (const piece of isOver ? [] : framing.split(slice))
      if (piece.kind === "json") await message.json(piece.bytes);
      else if (piece.kind === "frame") await message.frame(piece.bytes);
      else given.push(await message.finish(true));
    return given;
  }

  return {
    spooled: options.spooled,
    write: (chunk) =>
      run(async () => {
        const given: Uint8Array[] = [];
        for (let at = 0; at < chunk.length; at += sliceBytes)
          given.push(...(await take(chunk.subarray(at, at + sliceBytes))));
        return given;
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
