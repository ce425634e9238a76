import { SluiceError } from "../errors/error.ts";
import { readJson } from "../json-rpc/message.ts";
import { errorTable, type Reason } from "../wire/errors.ts";
import type { TreeHead, TreeRefusal, TreeTrailer } from "../wire/tree.ts";
import { lengthBytes, maxJsonBytes } from "./tree-frames.ts";

/** What a piece of the response says. */
export type TreeEvent =
  | { readonly kind: "head"; readonly head: TreeHead }
  /** The next bytes of the file of the last head; they lie in the chunk that was read. */
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "trailer"; readonly trailer: TreeTrailer }
  | { readonly kind: "refusal"; readonly refusal: TreeRefusal };

/** What a call asked for and declared. */
interface TreeDemand {
  /** Number of its URIs. */
  readonly files: number;
  /** Maximum bytes of all files together. */
  readonly maxBytes: number;
  /** Maximum bytes of one file. */
  readonly maxFileBytes: number;
}

/**
 * Reads the response to one call for many files, in any chunks and in constant memory. Everything that the call did not ask
 * for is `protocol`, at the frame that says it: an index out of the call or a second time, more bytes than the bounds, a frame
 * that is malformed or out of place, an end before each index was answered, and bytes after it.
 */
export class TreeReader {
  readonly #bounds: TreeDemand;
  readonly #answered = new Set<number>();
  readonly #length = new Uint8Array(lengthBytes);
  #json: Uint8Array | undefined;
  #filledBytes = 0;
  #state: "frame" | "content" | "trailer" | "ended" = "frame";
  #contentBytes = 0;
  #totalBytes = 0;

  constructor(bounds: TreeDemand) {
    this.#bounds = bounds;
  }

  /** Reads a chunk. Handle each event before the next: a later piece of the chunk may be malformed. */
  *read(chunk: Uint8Array): Generator<TreeEvent> {
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#state === "ended") throw malformed("bytes after the end");
      if (this.#state === "content") {
        const bytes = rest.subarray(0, this.#contentBytes);
        rest = rest.subarray(bytes.length);
        this.#contentBytes -= bytes.length;
        if (this.#contentBytes === 0) this.#state = "trailer";
        yield { kind: "bytes", bytes };
        continue;
      }
      const takenBytes = this.#fill(this.#json ?? this.#length, rest);
      rest = rest.subarray(takenBytes);
      const event = this.#readFrame();
      if (event) yield event;
    }
  }

  /** Throws `interrupted` unless the last frame has come. */
  ensureEnded(): void {
    if (this.#state !== "ended")
      throw new SluiceError("interrupted", "tree: the response was cut before its last frame");
  }

  #fill(target: Uint8Array, from: Uint8Array): number {
    const part = from.subarray(0, target.length - this.#filledBytes);
    target.set(part, this.#filledBytes);
    this.#filledBytes += part.length;
    return part.length;
  }

  /** The event of a frame whose JSON is complete. */
  #readFrame(): TreeEvent | undefined {
    if (this.#filledBytes < (this.#json ?? this.#length).length) return undefined;
    this.#filledBytes = 0;
    if (!this.#json) {
      const bytes = new DataView(this.#length.buffer).getUint32(0);
      if (bytes < 2 || bytes > maxJsonBytes) throw malformed(`a frame of ${bytes} bytes`);
      this.#json = new Uint8Array(bytes);
      return undefined;
    }
    const frame = frameIn(this.#json);
    this.#json = undefined;
    if (this.#state === "trailer") return this.#endFile(frame);
    if ("end" in frame) return this.#end(frame);
    return "error" in frame ? this.#refuse(frame) : this.#beginFile(frame);
  }

  #beginFile({ i, size, etag, modifiedMs }: LooseFrame): TreeEvent {
    if (!isCount(size)) throw malformed("a head without a size");
    if (etag !== undefined && typeof etag !== "string") throw malformed("a tag that is not text");
    if (modifiedMs !== undefined && !isCount(modifiedMs)) throw malformed("an invalid time");
    this.#answer(i);
    this.#totalBytes += size;
    const { maxBytes, maxFileBytes } = this.#bounds;
    if (size > maxFileBytes || this.#totalBytes > maxBytes)
      throw malformed(`more than the ${maxFileBytes} bytes of a file or ${maxBytes} of all`);
    this.#contentBytes = size;
    this.#state = size === 0 ? "trailer" : "content";
    const facts = {
      ...(etag !== undefined && { etag }),
      ...(modifiedMs !== undefined && { modifiedMs }),
    };
    return { kind: "head", head: { i: i as number, size, ...facts } };
  }

  #endFile({ ok, sha256 }: LooseFrame): TreeEvent {
    if (typeof ok !== "boolean") throw malformed("a file without its trailer");
    if (sha256 !== undefined && !isSha256(sha256)) throw malformed("an invalid SHA-256");
    this.#state = "frame";
    return { kind: "trailer", trailer: { ok, ...(sha256 !== undefined && { sha256 }) } };
  }

  #refuse({ i, error, size }: LooseFrame): TreeEvent {
    const { reason, retryAfterMs } = Object(error) as LooseRefusal;
    if (size !== undefined || !isReason(reason)) throw malformed("a malformed refusal");
    if (retryAfterMs !== undefined && !isCount(retryAfterMs)) throw malformed("an invalid pause");
    this.#answer(i);
    const pause = retryAfterMs === undefined ? {} : { retryAfterMs };
    return { kind: "refusal", refusal: { i: i as number, error: { reason, ...pause } } };
  }

  #end({ end, count }: LooseFrame): undefined {
    const { files } = this.#bounds;
    if (end !== true || count !== this.#answered.size) throw malformed("a malformed end");
    if (this.#answered.size < files)
      throw malformed(`an end after ${this.#answered.size} of ${files} files`);
    this.#state = "ended";
    return undefined;
  }

  #answer(i: unknown): void {
    if (!isCount(i) || i >= this.#bounds.files) throw malformed("a file that was not asked for");
    if (this.#answered.has(i)) throw malformed("a file for the second time");
    this.#answered.add(i);
  }
}

/** Members of frames, as they come. */
type LooseFrame = {
  readonly [
    K in keyof TreeHead | keyof TreeTrailer | keyof TreeRefusal | "end" | "count"
  ]?: unknown;
};
type LooseRefusal = { readonly [K in keyof TreeRefusal["error"]]?: unknown };

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function frameIn(json: Uint8Array): LooseFrame {
  let text: string;
  try {
    text = decoder.decode(json);
  } catch {
    throw malformed("a frame that is not UTF-8");
  }
  const { value } = readJson(text);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw malformed("a frame that is not a JSON object");
  return value;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isSha256(value: unknown): value is string {
  return typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
}

function isReason(value: unknown): value is Reason {
  return typeof value === "string" && Object.hasOwn(errorTable, value);
}

function malformed(what: string): SluiceError {
  return new SluiceError("protocol", `tree: the server sent ${what}`);
}
