/** Bytes of a stream: JSON of a message, or what is around it; `end` is the end of a message. */
type Piece =
  | { readonly kind: "json" | "frame"; readonly bytes: Uint8Array }
  | { readonly kind: "end" };

/** How messages lie in a stream. */
export interface Framing {
  split(chunk: Uint8Array): Piece[];
  /** The JSON in the text of one message with its frame. */
  dataOf(text: string): string;
  /** The same message with other JSON. */
  withData(text: string, data: string): string;
}

/** The body is one message. */
export function createDocumentFraming(): Framing {
  return {
    split: (bytes) => [{ kind: "json", bytes }],
    dataOf: withoutMark,
    withData: (_text, data) => data,
  };
}

/** Each line is a message, as over stdio. */
export function createLineFraming(): Framing {
  return {
    split(chunk) {
      const pieces: Piece[] = [];
      let from = 0;
      for (let end = chunk.indexOf(lf); end >= 0; end = chunk.indexOf(lf, from)) {
        pieces.push({ kind: "json", bytes: chunk.subarray(from, end) });
        pieces.push({ kind: "frame", bytes: chunk.subarray(end, end + 1) }, { kind: "end" });
        from = end + 1;
      }
      if (from < chunk.length) pieces.push({ kind: "json", bytes: chunk.subarray(from) });
      return pieces;
    },
    dataOf: (text) => text,
    withData: (_text, data) => `${data}\n`,
  };
}

/** The data of each server-sent event is a message (HTML, section 9.2.6). An empty line ends an event. */
export function createEventFraming(): Framing {
  /** Where in a line the next byte lies: before its name, in it, behind the colon of `data`, in a value. */
  let place: "start" | "name" | "colon" | "data" | "other" = "start";
  let name = "";
  /** What a CR at the end of the last chunk ended: a LF that comes first now belongs to it. */
  let endedByCr: "line" | "event" | undefined;
  /** Bytes of the mark that may begin the stream; more than its length: the place is behind. */
  let markBytes = 0;

  function readName(byte: number): void {
    if (byte === colon) place = name === "data" ? "colon" : "other";
    else if (name.length > 4) place = "other";
    else name += String.fromCharCode(byte);
  }

  function isMark(byte: number): boolean {
    const isNext = byte === byteOrderMark[markBytes];
    markBytes = isNext ? markBytes + 1 : byteOrderMark.length;
    return isNext;
  }

  return {
    split(chunk) {
      const pieces: Piece[] = [];
      const lineEnd = createLineEnds(chunk);
      let from = 0;
      let at = 0;
      const give = (kind: "json" | "frame", end: number): void => {
        if (end > from) pieces.push({ kind, bytes: chunk.subarray(from, end) });
        from = end;
      };
      if (endedByCr && chunk[0] === lf) {
        at = 1;
        give("frame", at);
        // it must not wait for the next event
        if (endedByCr === "event") pieces.push({ kind: "end" });
      }
      endedByCr = undefined;
      while (at < chunk.length) {
        const byte = chunk[at] as number;
        if (place === "start" && isMark(byte)) {
          at += 1;
          continue;
        }
        if (place === "colon") {
          if (byte === space) at += 1;
          give("frame", at);
          place = "data";
          continue;
        }
        const isLineEnd = byte === lf || byte === cr;
        if (!isLineEnd && (place === "data" || place === "other")) {
          at = lineEnd(at);
          if (place === "data") give("json", at);
          continue;
        }
        at += 1;
        if (!isLineEnd) {
          if (place === "start") name = "";
          place = "name";
          readName(byte);
          continue;
        }
        const isEmpty = place === "start";
        place = "start";
        if (byte === cr && chunk[at] === lf) at += 1;
        else if (byte === cr && at === chunk.length) endedByCr = isEmpty ? "event" : "line";
        if (isEmpty) {
          give("frame", at);
          pieces.push({ kind: "end" });
        }
      }
      give("frame", at);
      return pieces;
    },
    dataOf: (text) =>
      linesOf(text)
        .filter(isData)
        .map((line) => line.slice(line[5] === " " ? 6 : 5))
        .join("\n"),
    withData: (text, data) => {
      const others = linesOf(text).filter((line) => line !== "" && !isData(line));
      return [...others, `data: ${data}`, "", ""].join("\n");
    },
  };
}

const [lf, cr, colon, space] = [0x0a, 0x0d, 0x3a, 0x20];
const byteOrderMark = [0xef, 0xbb, 0xbf];

function linesOf(text: string): string[] {
  return withoutMark(text).split(/\r\n|\n|\r/);
}

/** The parser behind takes a byte order mark off, too. */
function withoutMark(text: string): string {
  return text.startsWith("\u{feff}") ? text.slice(1) : text;
}

function isData(line: string): boolean {
  return line.startsWith("data:");
}

/** Finds the next CR or LF of a chunk; it is asked in order, and looks at each byte twice at most. */
function createLineEnds(chunk: Uint8Array): (from: number) => number {
  const next = (byte: number): ((from: number) => number) => {
    let lastIndex = -1;
    return (from) => {
      if (lastIndex < from) lastIndex = chunk.indexOf(byte, from);
      if (lastIndex < 0) lastIndex = chunk.length;
      return lastIndex;
    };
  };
  const [nextLf, nextCr] = [next(lf), next(cr)];
  return (from) => Math.min(nextLf(from), nextCr(from));
}
