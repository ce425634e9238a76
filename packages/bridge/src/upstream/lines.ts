/** A line that was longer than allowed: only its ends are kept. */
export interface LongLine {
  readonly head: string;
  /** Undefined while the line goes on. */
  readonly tail?: string;
}

const kept = 512;
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
        const head = Buffer.concat([...chunks, part.subarray(0, kept)]).subarray(0, kept);
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
  const last = part.subarray(Math.max(0, part.length - kept));
  return Buffer.concat([before.subarray(Math.max(0, before.length + last.length - kept)), last]);
}
