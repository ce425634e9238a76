import { SluiceError, type ByteFlow, type WriteChunk } from "@sluice/core";
import {
  discardSource,
  formatTreeFrame,
  joinChunks,
  onAbort,
  type TreeHead,
  type TreeRefusal,
} from "@sluice/core/internal";
import type { OpenedObject } from "@sluice/storage";

/** A file that was opened for a response with many. */
export interface OpenedTreeFile {
  readonly head: TreeHead;
  readonly opened: OpenedObject;
  /** All of it, if it was read ahead; `opened` is then used up. */
  readonly content?: Uint8Array | undefined;
  /** Records how it ended, with the bytes handed over. Idempotent. */
  readonly end: EndFile;
}

/** How a file of the response ended. */
export type EndFile = (
  outcome: "complete" | "aborted" | "failed",
  bytes: number,
  error?: unknown,
) => void;

/** What comes at an index: a file, or why it does not come. */
export type TreePart = OpenedTreeFile | { readonly refusal: TreeRefusal };

/** Opens the file of an index. Never rejects. */
type OpenPart = (i: number, signal: AbortSignal) => Promise<TreePart>;

/** Files that are opened before their turn. */
const openAhead = 8;
/** Small frames leave together. */
const batchBytes = 128 * 1024;

/**
 * The frames of many files, in the order of the call. Opens some of them ahead; a file that breaks after its head is filled
 * up to the promised size and marked, and the next one follows.
 */
export class TreeFlow implements ByteFlow {
  readonly #count: number;
  readonly #open: OpenPart;
  readonly #stop = new AbortController();
  readonly #opening: Opening[] = [];
  #write: WriteChunk = () => {};
  #batch: Uint8Array[] = [];
  #batchedBytes = 0;
  /** Of the file in progress that is not in memory. */
  #sentBytes = 0;
  /** Files whose last byte is in the batch, or was handed over with the last one. */
  #batched: FramedFile[] = [];
  #handed: FramedFile[] = [];

  constructor(count: number, open: OpenPart) {
    this.#count = count;
    this.#open = open;
  }

  async pump(write: WriteChunk): Promise<void> {
    this.#write = write;
    try {
      for (let i = 0, next = 0; i < this.#count; i += 1) {
        while (next < this.#count && next < i + openAhead) this.#begin(next++);
        const { part } = this.#opening[0]!;
        // bytes that are there do not wait for a slow storage
        if (!this.#opening[0]!.isReady) await this.#flush();
        const opened = await part;
        this.#opening.shift();
        await this.#send(opened);
      }
      await this.#emit(formatTreeFrame({ end: true, count: this.#count }));
      await this.#flush();
    } catch (error) {
      this.cancel(error);
      throw error;
    }
  }

  cancel(reason: unknown = new DOMException("the reader is gone", "AbortError")): void {
    this.#stop.abort(reason);
    for (const { part } of this.#opening.splice(0)) void part.then(discard);
  }

  /** Ends the records of files that were handed over, once the transport says how that went. */
  settle(outcome: "complete" | "aborted" | "failed"): void {
    for (const { end, bytes } of this.#handed.splice(0)) end(outcome, bytes);
    for (const { end } of this.#batched.splice(0)) end(outcome, 0);
  }

  #begin(i: number): void {
    const opening: Opening = { part: this.#open(i, this.#stop.signal), isReady: false };
    void opening.part.then(() => (opening.isReady = true));
    this.#opening.push(opening);
  }

  async #send(part: TreePart): Promise<void> {
    if ("refusal" in part) return this.#emit(formatTreeFrame(part.refusal));
    try {
      await this.#sendFile(part);
    } catch (error) {
      if (!part.content) void discardSource(part.opened);
      part.end("aborted", this.#sentBytes);
      throw error;
    }
  }

  async #sendFile(file: OpenedTreeFile): Promise<void> {
    const { head, opened, content, end } = file;
    this.#sentBytes = 0;
    await this.#emit(formatTreeFrame(head));
    if (content) await this.#emit(content);
    else {
      const fault = await this.#sendBody(file);
      if (fault !== undefined) {
        end("failed", head.size, fault);
        return this.#emit(formatTreeFrame({ ok: false }));
      }
    }
    const sha256 = opened.info.digests?.sha256;
    this.#batched.push({ end, bytes: head.size });
    await this.#emit(formatTreeFrame({ ok: true, ...(sha256 !== undefined && { sha256 }) }));
  }

  /** Sends exactly the promised bytes; gives the fault if those of the file were others. */
  async #sendBody({ head: { size }, opened }: OpenedTreeFile): Promise<unknown> {
    let fault: unknown;
    try {
      for await (const chunk of chunksOf(opened.body, this.#stop.signal)) {
        if (this.#sentBytes + chunk.length > size)
          throw new SluiceError("corrupt", "sluice: tree: the file has more than its size");
        this.#sentBytes += chunk.length;
        await this.#emit(chunk);
      }
      if (this.#sentBytes < size)
        throw new SluiceError("interrupted", "sluice: tree: the file has less than its size");
    } catch (error) {
      if (this.#stop.signal.aborted) throw error;
      fault = error ?? new Error("sluice: tree: the storage failed");
    }
    for (; this.#sentBytes < size; this.#sentBytes += filler.length)
      await this.#emit(filler.subarray(0, size - this.#sentBytes));
    return fault;
  }

  async #emit(bytes: Uint8Array): Promise<void> {
    this.#batch.push(bytes);
    this.#batchedBytes += bytes.length;
    if (this.#batchedBytes >= batchBytes) await this.#flush();
  }

  async #flush(): Promise<void> {
    this.#stop.signal.throwIfAborted();
    if (this.#batch.length === 0) return;
    const bytes = joinChunks(this.#batch, this.#batchedBytes);
    const before = this.#handed;
    this.#handed = this.#batched;
    this.#batch = [];
    this.#batchedBytes = 0;
    this.#batched = [];
    await this.#write(bytes);
    if (this.#stop.signal.aborted) this.#handed.push(...before);
    else for (const file of before) file.end("complete", file.bytes);
    this.#stop.signal.throwIfAborted();
  }
}

interface Opening {
  readonly part: Promise<TreePart>;
  isReady: boolean;
}

interface FramedFile {
  readonly end: EndFile;
  readonly bytes: number;
}

const filler = new Uint8Array(64 * 1024);

function discard(part: TreePart): void {
  if ("refusal" in part) return;
  if (!part.content) void discardSource(part.opened);
  part.end("aborted", 0);
}

/** The chunks of a body, until the signal ends it. */
export async function* chunksOf(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  signal.throwIfAborted();
  const reader = body.getReader();
  const stopListening = onAbort(signal, (reason) => void reader.cancel(reason).catch(() => {}));
  let hasEnded = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      if (done) return void (hasEnded = true);
      yield value;
    }
  } finally {
    stopListening();
    if (!hasEnded) await reader.cancel().catch(() => {});
  }
}
