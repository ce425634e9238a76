import { SluiceError } from "@sluice/core";
import {
  createDelimiter,
  joinBytes,
  malformed,
  maxHeadBytes,
  parsePartHeaders,
  type PartHeaders,
} from "./boundary.ts";

/** A part of a multipart message. */
export interface MultipartPart {
  readonly headers: PartHeaders;
  /** The next bytes; `undefined` after the last, when the delimiter behind them was seen. */
  read(): Promise<Uint8Array | undefined>;
}

/** A multipart message that is taken part by part, each to its end before the next. */
export interface MultipartReader {
  /** The next part; `undefined` at the end. Unread bytes of the one before are skipped. */
  next(): Promise<MultipartPart | undefined>;
}

/** Maximum bytes before the first delimiter, and after the closing one. */
const maxAroundBytes = 4_096;
/** Maximum padding after a delimiter, which RFC 2046 §5.1.1 allows. */
const maxPaddingBytes = 64;

/**
 * Reads a `multipart/*` message (RFC 2046 §5.1) with one chunk of it in memory. A part with a
 * `Content-Length` is counted and has to end at a delimiter; any other is searched for it. Lines end
 * with CRLF, and the closing delimiter has to be there. Rejects with `protocol` for a broken rule,
 * with `interrupted` for an end that comes too early, and with errors of `pull`; nothing more can be
 * read then.
 */
export function readMultipart(
  pull: () => Promise<Uint8Array | undefined>,
  boundary: string,
): MultipartReader {
  const delimiter = createDelimiter(boundary);
  /** Bytes that came and were not taken. The first delimiter may stand at the very beginning, where no line ends. */
  let window: Uint8Array = new TextEncoder().encode(crlf);
  let part: MultipartPart | undefined;
  let isStarted = false;
  let isClosed = false;
  let failure: { readonly error: unknown } | undefined;

  function take(bytes: number): Uint8Array {
    const head = window.subarray(0, bytes);
    window = window.subarray(bytes);
    return head;
  }

  /** Adds a chunk to the window; false at the end of the message. */
  async function fill(): Promise<boolean> {
    const chunk = await pull();
    if (!chunk) return false;
    // as a rule nothing is left over, else a few bytes of a line
    window = window.length === 0 ? chunk : joinBytes(window, chunk);
    return true;
  }

  async function need(bytes: number): Promise<void> {
    while (window.length < bytes)
      if (!(await fill()))
        throw new SluiceError(
          "interrupted",
          "multipart: the message ended before its last delimiter",
        );
  }

  /** Bytes up to a delimiter; `undefined` there. */
  async function search(): Promise<Uint8Array | undefined> {
    for (;;) {
      const at = delimiter.indexIn(window);
      if (at === 0) return passDelimiter();
      const end = at > 0 ? at : delimiter.tailIn(window);
      if (end > 0) return take(end);
      await need(window.length + 1);
    }
  }

  /** Bytes of a part with a `Content-Length`; `undefined` at the delimiter behind them. */
  function countDown(bytes: number): () => Promise<Uint8Array | undefined> {
    let missingBytes = bytes;
    return async () => {
      if (missingBytes === 0) {
        await need(delimiter.bytes.length);
        if (delimiter.indexIn(window.subarray(0, delimiter.bytes.length)) !== 0)
          throw malformed("a part of another length than its Content-Length");
        return passDelimiter();
      }
      await need(1);
      const chunk = take(Math.min(missingBytes, window.length));
      missingBytes -= chunk.length;
      return chunk;
    };
  }

  /** Passes a delimiter to the end of its line; the closing one ends the message. */
  async function passDelimiter(): Promise<undefined> {
    take(delimiter.bytes.length);
    await need(2);
    if (startsWith(window, "--")) {
      take(2);
      isClosed = true;
      return;
    }
    for (let padding = 0; !startsWith(window, crlf); padding += 1) {
      const [byte] = take(1);
      if ((byte !== 0x20 && byte !== 0x09) || padding === maxPaddingBytes)
        throw malformed("a line that only begins as a delimiter");
      await need(2);
    }
  }

  /** The lines between a delimiter and an empty line, which may follow at once. */
  async function readHead(): Promise<PartHeaders> {
    for (;;) {
      const end = indexOfEmptyLine(window);
      if (end >= 0) {
        const head = take(end + 4).subarray(2, Math.max(2, end));
        if (head.length > maxHeadBytes) throw malformed("too long a head of a part");
        return parsePartHeaders(head);
      }
      if (window.length > maxHeadBytes + 4) throw malformed("too long a head of a part");
      await need(window.length + 1);
    }
  }

  async function passPreamble(): Promise<void> {
    isStarted = true;
    let passed = -crlf.length;
    for (let chunk = await search(); chunk; chunk = await search()) {
      passed += chunk.length;
      if (passed > maxAroundBytes) throw malformed("too much before the first part");
    }
  }

  async function passEpilogue(): Promise<void> {
    let passed = 0;
    do {
      passed += take(window.length).length;
      if (passed > maxAroundBytes) throw malformed("too much after the last part");
    } while (await fill());
  }

  async function open(): Promise<MultipartPart | undefined> {
    if (!isStarted) await passPreamble();
    while (await part?.read());
    part = undefined;
    if (isClosed) {
      await passEpilogue();
      return undefined;
    }
    const headers = await readHead();
    const { contentLength } = headers;
    const step = contentLength === undefined ? search : countDown(contentLength);
    let isOver = false;
    part = {
      headers,
      async read() {
        if (isOver) return undefined;
        const chunk = await guarded(step);
        isOver = chunk === undefined;
        return chunk;
      },
    };
    return part;
  }

  async function guarded<Value>(run: () => Promise<Value>): Promise<Value> {
    if (failure) throw failure.error;
    try {
      return await run();
    } catch (error) {
      failure = { error };
      throw error;
    }
  }

  return { next: () => guarded(open) };
}

const crlf = "\r\n";

function startsWith(bytes: Uint8Array, pair: "--" | "\r\n"): boolean {
  return bytes[0] === pair.charCodeAt(0) && bytes[1] === pair.charCodeAt(1);
}

/** Looks no further than a head may reach. */
function indexOfEmptyLine(bytes: Uint8Array): number {
  const end = Math.min(bytes.length - 4, maxHeadBytes + 4);
  for (let at = 0; at <= end; at += 1)
    if (isLineEnd(bytes, at) && isLineEnd(bytes, at + 2)) return at;
  return -1;
}

function isLineEnd(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === 0x0d && bytes[at + 1] === 0x0a;
}
