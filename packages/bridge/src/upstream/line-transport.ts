import type { Writable } from "node:stream";
import type { JSONRPCErrorResponse, JSONRPCMessage, RequestId } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { codes } from "../messages/messages.ts";
import { readMessage, unread } from "../messages/read-message.ts";

/** Largest amount of bytes that wait for a reader of our output. */
const maxWaitingBytes = 64 * 2 ** 20;

interface LineReading {
  readonly maxContainers?: number;
  /** What to do about a line that is too long. */
  readonly advice?: string;
}

/**
 * Reads a line as a message of at most `maxContainers` arrays and objects, where that is bounded. A response that is too
 * long becomes an error response. `maxBytes` is for the words of the fault. `undefined`: the other half of a long line says
 * it.
 */
export function readLine(
  line: string | LongLine,
  maxBytes: number,
  { maxContainers, advice = "use smaller parts" }: LineReading = {},
): ReturnType<typeof readMessage> | undefined {
  if (typeof line !== "string") return readLongLine(line, maxBytes, advice);
  const read = readMessage(line.endsWith("\r") ? line.slice(0, -1) : line, maxContainers);
  const isFound = read.message || read.requests.length + read.responses.length > 0;
  return isFound ? read : { ...read, others: idsAtEnds(line) };
}

/** The error for a call whose answer cannot be read. `author`: whose answer it is. */
export function unreadableAnswer(
  id: RequestId,
  fault: string,
  author: "server" | "client" = "server",
): JSONRPCErrorResponse {
  const message = `The ${author}'s answer cannot be read: ${fault}. Tell its author.`;
  return { jsonrpc: "2.0", id, error: { code: -32_000, message } };
}

const endBytes = 300;

/** A response that is too long becomes an error for its call, where the id stands at one of its ends. */
function readLongLine(
  { head, tail }: LongLine,
  maxBytes: number,
  advice: string,
): ReturnType<typeof readMessage> | undefined {
  const message = `a message is larger than ${maxBytes / 2 ** 20} MiB`;
  const first = idAtStart(head);
  if ((first === undefined) === (tail === undefined)) return undefined;
  const id = first ?? idAtEnd(tail ?? "");
  if (id === undefined) return unread({ code: codes.invalidRequest, message });
  const error = { code: -32_000, message: `Dropped: ${message}; ${advice}.` };
  return { message: { jsonrpc: "2.0", id, error } };
}

/** The id of a text that no parser took, where it stands at one of its ends. */
function idsAtEnds(line: string): readonly RequestId[] {
  const id = idAtStart(line.slice(0, endBytes)) ?? idAtEnd(line.slice(-endBytes));
  return id === undefined ? [] : [id];
}

// with the blanks that encoders of other languages write
const startPattern = /^\{(?:"jsonrpc": ?"2\.0", ?)?"id": ?("[^"\\]{0,200}"|\d{1,16}),/;
const endPattern = /, ?"id": ?("[^"\\]{0,200}"|\d{1,16})(?:, ?"jsonrpc": ?"2\.0")?\}\r?$/;

function idAtStart(head: string): RequestId | undefined {
  return parseId(startPattern.exec(head)?.[1]);
}

function idAtEnd(tail: string): RequestId | undefined {
  return parseId(endPattern.exec(tail)?.[1]);
}

function parseId(text: string | undefined): RequestId | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as RequestId);
}

/** Writes messages as lines to a stream. */
export class LineWriter {
  readonly #stream: Writable;
  /** Settle the writes that wait for the reader. */
  readonly #waiting: Set<Settle> = new Set();

  constructor(stream: Writable) {
    this.#stream = stream;
    stream.once("close", () => {
      for (const settle of this.#waiting) settle(new Error("closed"));
    });
  }

  /**
   * Resolves when the stream takes more, or has passed on this message. Throws `unavailable` when the reader has left too
   * much unread, or is gone before it could read all of the message.
   */
  write(message: JSONRPCMessage): Promise<void> {
    const stream = this.#stream;
    if (stream.destroyed || stream.writableEnded) return Promise.reject(disconnected());
    if (stream.writableLength > maxWaitingBytes)
      return Promise.reject(
        new SluiceError("unavailable", "bridge: the peer does not read what is sent to it"),
      );
    return new Promise((resolve, reject) => {
      const settle: Settle = (error) => {
        this.#waiting.delete(settle);
        if (error) reject(disconnected());
        else resolve();
      };
      this.#waiting.add(settle);
      // its own callback: a message that was read whole may be done, whatever became of those behind it
      if (stream.write(`${JSON.stringify(message)}\n`, settle)) settle();
    });
  }
}

type Settle = (error?: Error | null) => void;

function disconnected(): SluiceError {
  return new SluiceError("unavailable", "bridge: peer disconnected");
}

/** A line that was longer than allowed: only its ends are kept. */
interface LongLine {
  readonly head: string;
  /** Undefined while the line goes on. */
  readonly tail?: string;
}

const keptBytes = 512;
const newline = 0x0a;

/**
 * Lines of a stream of bytes, without the newline. A line over `maxBytes` is given as {@link LongLine}, once when
 * it grows too long and once when it ends; memory stays at `maxBytes`.
 */
export async function* linesOf(
  source: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<string | LongLine> {
  let chunks: Uint8Array[] = [];
  let length = 0;
  let long: { head: string; tail: Buffer } | undefined;

  for await (const chunk of source) {
    let start = 0;
    while (start < chunk.length) {
      const end = chunk.indexOf(newline, start);
      const part = chunk.subarray(start, end === -1 ? chunk.length : end);
      start = end === -1 ? chunk.length : end + 1;
      length += part.length;
      if (long) long.tail = lastOf(long.tail, part);
      else if (length > maxBytes) {
        const head = Buffer.concat([...chunks, part.subarray(0, keptBytes)]).subarray(0, keptBytes);
        long = { head: head.toString("latin1"), tail: lastOf(Buffer.alloc(0), part) };
        chunks = [];
        yield { head: long.head };
      } else if (part.length > 0) chunks.push(part);
      if (end === -1) continue;
      if (long) yield { head: long.head, tail: long.tail.toString("latin1") };
      else if (length > 0) yield join(chunks);
      chunks = [];
      length = 0;
      long = undefined;
    }
  }
}

function join(chunks: readonly Uint8Array[]): string {
  const [only] = chunks;
  const bytes = chunks.length === 1 && only ? only : Buffer.concat(chunks);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

function lastOf(before: Buffer, part: Uint8Array): Buffer {
  const last = part.subarray(Math.max(0, part.length - keptBytes));
  return Buffer.concat([
    before.subarray(Math.max(0, before.length + last.length - keptBytes)),
    last,
  ]);
}
