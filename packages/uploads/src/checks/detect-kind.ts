import { canonicalType } from "@sluice/core/internal";
import { type FileKind, judgeKind, wrongType } from "./file-kind.ts";
import { readFirstBytes } from "./first-bytes.ts";

/** Bytes at the beginning of a file that are looked at. */
const headBytes = 4_100;

/** Looks at a file as it comes: at its beginning, and at all of a text that is called a picture. */
export interface KindDetector {
  /** Gives a promise only for the chunk that completes the beginning; it rejects if that is not of an accepted type. */
  add(chunk: Uint8Array): Promise<unknown> | undefined;
  /** True if more bytes may change the result. */
  needsMore(): boolean;
  /** Media type of the file, by what has come. Rejects with `unsupported` as {@link judgeKind} throws it. */
  kind(): Promise<string>;
}

/** What is said of a file. */
export interface ToldKind {
  readonly name?: string | undefined;
  readonly declaredType?: string | undefined;
}

/** Makes a detector for one file. */
export function createKindDetector(told: ToldKind, accept: readonly string[]): KindDetector {
  const head = new Uint8Array(headBytes);
  let filledBytes = 0;
  let detected: Promise<FileKind> | undefined;
  let finder: ActiveTextFinder | undefined;

  const detect = (): Promise<FileKind> =>
    (detected ??= detectKind(head.subarray(0, filledBytes), told, accept).then((kind) => {
      if (kind.mustBeInactive) finder = new ActiveTextFinder();
      finder?.add(head.subarray(0, filledBytes));
      return kind;
    }));

  return {
    add(chunk) {
      if (filledBytes === headBytes) {
        finder?.add(chunk);
        return undefined;
      }
      const piece = chunk.subarray(0, headBytes - filledBytes);
      head.set(piece, filledBytes);
      filledBytes += piece.length;
      if (filledBytes < headBytes) return undefined;
      return detect().then(() => finder?.add(chunk.subarray(piece.length)));
    },
    needsMore: () => filledBytes < headBytes || finder !== undefined,
    async kind() {
      const { type } = await detect();
      if (finder?.isActive() === true)
        throw wrongType("it is called a picture, and something in it may run");
      return type;
    },
  };
}

/**
 * Rejects with `unsupported` unless the bytes of a file that is here are of a type that is accepted, as they would be
 * for a slot that asks for these. Reads no more than that takes.
 */
export async function ensureAccepted(
  body: ReadableStream<Uint8Array>,
  told: ToldKind,
  accept: readonly string[],
): Promise<void> {
  const detector = createKindDetector(told, accept);
  const reader = body.getReader();
  try {
    while (detector.needsMore()) {
      const { done, value } = await reader.read();
      if (done) break;
      await detector.add(value);
    }
    await detector.kind();
  } finally {
    await reader.cancel().catch(() => {});
  }
}

async function detectKind(
  head: Uint8Array,
  { name, declaredType }: ToldKind,
  accept: readonly string[],
): Promise<FileKind> {
  // large tables, wanted only where files arrive
  const [{ fileTypeFromBuffer, supportedMimeTypes }, { default: mime }] = await Promise.all([
    import("file-type/core"),
    import("mime"),
  ]);
  const bytes = await readFirstBytes(head, fileTypeFromBuffer);
  return judgeKind(
    {
      name,
      declaredType,
      bytes,
      signatureTypes: new Set([...supportedMimeTypes].map(canonicalType)),
      // a name without a dot is looked up as an extension
      typeOfExtension: (extension) => mime.getType(`.${extension}`),
    },
    accept,
  );
}

/** Characters that are searched together. */
const windowChars = 16 * 1024;
/** The last ones of them, which are searched again with the next. */
const carriedChars = 1_024;

/**
 * Looks through a text for what would run in a browser, or for a script as systems start them. It is for text that is
 * called a picture: it takes every mention for the thing, such as `javascript:` in a comment. Encodings that browsers
 * read and that hide ASCII count as active.
 */
class ActiveTextFinder {
  #active = false;
  #isFirst = true;
  #hasLists = false;
  #waiting = "";

  add(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length && !this.#active; at += windowChars) {
      let waitingText = this.#waiting;
      for (const byte of chunk.subarray(at, at + windowChars)) {
        // UTF-16 becomes ASCII where it matters
        if (byte === 0) continue;
        const character = byte <= 32 ? " " : String.fromCharCode(byte);
        if (character !== " " || !waitingText.endsWith(" ")) waitingText += character;
      }
      this.#waiting = waitingText;
      if (waitingText.length >= windowChars) this.#look();
    }
  }

  /** Whether anything was found, when all of it was added. */
  isActive(): boolean {
    if (!this.#active) this.#look();
    return this.#active;
  }

  #look(): void {
    const waitingText = this.#waiting;
    this.#hasLists ||= attributeLists.test(waitingText);
    this.#active ||= (this.#isFirst && beginsActive(waitingText)) || holdsActive(waitingText);
    this.#active ||= this.#hasLists && defaults.test(waitingText);
    this.#isFirst = false;
    this.#waiting = waitingText.slice(-carriedChars);
  }
}

// each is of a fixed beginning and bounded: blanks come one at a time
const beginnings: readonly RegExp[] = [
  /^.{0,3} ?(?:#!|@echo off|\[InternetShortcut\]|\[Desktop Entry\]|mime-version:)/i,
  /^[^>]{0,300}encoding ?= ?["'](?!utf-?8|utf-?16|us-ascii|ascii|iso-8859-\d|latin-?1|windows-125\d)/i,
];
const elements =
  /[<:](?:script|handler|listener|iframe|frame|object|embed|applet|meta|base|html|head|body|form|link)[ />]|<!doctype html|<\?(?:php|=)|<%/i;
/** Without quotes they run in a page that the drawing is put into. */
const attributes =
  /[ "'/]on[a-z]{2,40} ?= ?["']|[ "'/]on[a-z]{2,40}=[a-z]|attributename ?= ?["'] ?on/i;
/** They give elements attributes that the drawing itself does not show (XML §3.3). */
const attributeLists = /<!attlist /i;
const defaults = / (?:on[a-z]{2,40}|attributename) (?:cdata|id|nmtoken|entit|notation|\()/i;
/** Entities are for namespaces; any other may be a piece of a URL. */
const entities = /<!entity (?![\w.-]{1,100} ["']https?:)|&#x?0{64}/i;
const styleSheets = /<\?xml-stylesheet (?![^>]{0,500}text\/css)/i;
const schemes = /(?:java|vb|live)script:|data:text\/html|data:[a-z]+\/xhtml|data:[a-z]+\/xml/i;

function beginsActive(text: string): boolean {
  return beginnings.some((beginning) => beginning.test(text));
}

function holdsActive(text: string): boolean {
  const decoded = text.replace(/&#(?:x([0-9a-f]{1,64})|(\d{1,64}));?/gi, decode);
  return (
    [elements, attributes, entities, styleSheets].some((pattern) => pattern.test(text)) ||
    elements.test(decoded) ||
    attributes.test(decoded) ||
    schemes.test(decoded.replaceAll(" ", ""))
  );
}

function decode(_reference: string, hex: string | undefined, decimal: string | undefined): string {
  const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
  if (code <= 32) return "";
  return code < 127 ? String.fromCharCode(code) : "?";
}
