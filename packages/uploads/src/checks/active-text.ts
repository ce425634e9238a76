/** Characters that are searched together. */
const windowChars = 16 * 1024;
/** The last ones of them, which are searched again with the next. */
const carriedChars = 1_024;

/**
 * Looks through a text for what would run in a browser, or for a script as systems start them. It is for text that is
 * called a picture: it takes every mention for the thing, such as `javascript:` in a comment. Encodings that browsers
 * read and that hide ASCII count as active.
 */
export class ActiveTextFinder {
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
