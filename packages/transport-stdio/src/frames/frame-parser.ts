import { SluiceError } from "@sluice/core";
import { ByteQueue } from "@sluice/core/internal";
import {
  frameKindOf,
  headerBytes,
  readHeader,
  type FrameHeader,
  type FrameKind,
} from "./frame-format.ts";

/** Takes the bytes of one frame. */
export interface PayloadTaker {
  /** Takes bytes; a promise when the next ones have to wait. */
  write(bytes: Uint8Array): Promise<void> | undefined;
  /** All bytes of the frame were written. */
  end(): void;
}

/** Takes the findings of a parser. None of these may throw for bytes of a peer, but `line`, which ends it all. */
export interface FrameTaker {
  /** A message without its line end. Gives how many whole transfers stand right behind it. */
  line(text: string): number;
  /** A whole transfer begins. Without a taker its bytes are dropped. */
  transfer(header: FrameHeader): PayloadTaker | undefined;
  /** The last of the whole transfers behind a message has ended. */
  transferred(): void;
  /** A chunk of a transfer begins. */
  chunk(header: FrameHeader): PayloadTaker | undefined;
  /** A frame without bytes. */
  control(kind: Exclude<FrameKind, "data">, header: FrameHeader): void;
}

/** Maximum bytes of a chunk: more would keep messages waiting. */
const maxChunkBytes = 2 ** 20;

const lineFeed = 10;

/**
 * Tells messages and frames apart. Only its position decides: after a message that announces N
 * whole transfers come N frames; everywhere else the first byte says whether a message or an
 * interleaved frame begins. It keeps one line and one header, never bytes of frames.
 */
export class FrameParser {
  readonly #taker: FrameTaker;
  readonly #maxLineBytes: number;
  #state: "boundary" | "line" | "header" | "payload" = "boundary";
  /** The beginning of a message. A peer may send it in single bytes. */
  readonly #line = new ByteQueue();
  readonly #header = Buffer.alloc(headerBytes);
  #filled = 0;
  /** Kind of the current frame; `undefined` for a whole transfer. */
  #kind: FrameKind | undefined;
  #left = 0;
  #payload: PayloadTaker | undefined;
  #following = 0;

  constructor(taker: FrameTaker, { maxLineBytes }: { readonly maxLineBytes: number }) {
    this.#taker = taker;
    this.#maxLineBytes = maxLineBytes;
  }

  /** True while a frame is announced, or it or a message is not complete: nothing else can come before its end. */
  get isWithin(): boolean {
    return this.#state !== "boundary" || this.#following > 0;
  }

  /**
   * Takes the next bytes. A promise when more have to wait for it. Throws, or rejects with, a
   * `SluiceError` after which nothing can be understood any more: `protocol`, `too_large`.
   */
  push(bytes: Buffer): Promise<void> | undefined {
    let at = 0;
    while (at < bytes.length) {
      if (this.#state === "payload") {
        const takenBytes = Math.min(this.#left, bytes.length - at);
        this.#left -= takenBytes;
        const wait = this.#payload?.write(bytes.subarray(at, at + takenBytes));
        at += takenBytes;
        if (this.#left === 0) this.#endFrame();
        if (!wait) continue;
        const rest = bytes.subarray(at);
        return wait.then(() => this.push(rest));
      }
      at = this.#state === "header" ? this.#takeHeader(bytes, at) : this.#takeLine(bytes, at);
    }
    return undefined;
  }

  #takeLine(bytes: Buffer, at: number): number {
    if (this.#state === "boundary") {
      this.#kind = this.#following > 0 ? undefined : frameKindOf(bytes[at]!);
      if (this.#following > 0 || this.#kind) {
        this.#state = "header";
        this.#filled = 0;
        return this.#kind ? at + 1 : at;
      }
      this.#state = "line";
    }
    const found = bytes.indexOf(lineFeed, at);
    const end = found === -1 ? bytes.length : found;
    const piece = bytes.subarray(at, end);
    if (this.#line.bytes + piece.length > this.#maxLineBytes)
      throw new SluiceError("too_large", `stdio: a message over ${this.#maxLineBytes} bytes`);
    if (found === -1) {
      this.#line.push(piece);
      return end;
    }
    const text = this.#takeText(piece);
    this.#state = "boundary";
    this.#following = this.#taker.line(text.endsWith("\r") ? text.slice(0, -1) : text);
    return end + 1;
  }

  #takeText(last: Buffer): string {
    if (this.#line.bytes === 0) return last.toString();
    const pieces: Uint8Array[] = [];
    for (let piece = this.#line.shift(); piece; piece = this.#line.shift()) pieces.push(piece);
    return Buffer.concat([...pieces, last]).toString();
  }

  #takeHeader(bytes: Buffer, at: number): number {
    const takenBytes = bytes.copy(this.#header, this.#filled, at);
    this.#filled += takenBytes;
    if (this.#filled === headerBytes) this.#beginFrame();
    return at + takenBytes;
  }

  #beginFrame(): void {
    const header = readHeader(this.#header);
    const kind = this.#kind;
    if (kind !== undefined && kind !== "data") {
      this.#state = "boundary";
      return this.#taker.control(kind, header);
    }
    if (kind === "data" && header.count > maxChunkBytes)
      throw new SluiceError("protocol", `stdio: a chunk over ${maxChunkBytes} bytes`);
    this.#payload = kind === "data" ? this.#taker.chunk(header) : this.#taker.transfer(header);
    this.#left = header.count;
    this.#state = "payload";
    if (this.#left === 0) this.#endFrame();
  }

  #endFrame(): void {
    const payload = this.#payload;
    this.#payload = undefined;
    this.#state = "boundary";
    payload?.end();
    if (this.#kind !== undefined) return;
    this.#following -= 1;
    if (this.#following === 0) this.#taker.transferred();
  }
}
