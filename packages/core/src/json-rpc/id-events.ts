const lf = 10;
const cr = 13;
/** A byte order mark and the longest name that counts, with its colon. */
const headBytes = 8;
const emptyData = new TextEncoder().encode("data:\n");

/**
 * Makes a function that takes the chunks of a stream of server-sent events, and gives each event with only an id an empty
 * `data:`. Such an event is a resume point (HTML, section 9.2.6), but SDKs receive only events with data. It keeps the first
 * 8 bytes of a line.
 */
export function createIdEventFiller(): (chunk: Uint8Array) => Uint8Array {
  let head = "";
  let isFirstLine = true;
  let hasId = false;
  let hasData = false;
  let isAfterCr = false;

  /** True if an empty `data:` belongs before the end of this line. */
  function endLine(): boolean {
    const line = isFirstLine ? head.replace(/^\xef\xbb\xbf/, "") : head;
    isFirstLine = false;
    head = "";
    if (line !== "") {
      hasId ||= /^id(?::|$)/.test(line);
      hasData ||= /^data(?::|$)/.test(line);
      return false;
    }
    const isResumePoint = hasId && !hasData;
    hasId = hasData = false;
    return isResumePoint;
  }

  return (chunk) => {
    const pieces: Uint8Array[] = [];
    let from = 0;
    let at = isAfterCr && chunk[0] === lf ? 1 : 0;
    isAfterCr &&= chunk.length === 0;
    let nextCr = -1;
    let nextLf = -1;
    while (at < chunk.length) {
      // each is looked for once: a search for the one that never comes would read the whole chunk for each line
      if (nextCr < at) nextCr = indexFrom(chunk, cr, at);
      if (nextLf < at) nextLf = indexFrom(chunk, lf, at);
      const end = Math.min(nextLf, nextCr);
      const headEnd = Math.min(end, at + headBytes - head.length);
      if (headEnd > at) head += String.fromCharCode(...chunk.subarray(at, headEnd));
      if (end === chunk.length) break;
      if (endLine()) {
        pieces.push(chunk.subarray(from, end), emptyData);
        from = end;
      }
      at = end + 1;
      if (end !== nextCr) continue;
      if (chunk[at] === lf) at += 1;
      isAfterCr = at === chunk.length && chunk[at - 1] === cr;
    }
    return pieces.length === 0 ? chunk : joined([...pieces, chunk.subarray(from)]);
  };
}

function indexFrom(bytes: Uint8Array, byte: number, from: number): number {
  const at = bytes.indexOf(byte, from);
  return at < 0 ? bytes.length : at;
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}
