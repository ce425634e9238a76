/** One link of a `Link` header (RFC 8288 §3). */
interface Link {
  /** URI reference, as it was written. */
  readonly target: string;
  /** Relation types in lower case, out of the first `rel`; empty when there is none. */
  readonly relations: readonly string[];
  /** True for a link whose context is another resource than the one that was asked for. */
  readonly hasAnchor: boolean;
}

/** Longest header that is parsed, in characters; a longer one counts as absent. */
const maxLength = 16_384;

/**
 * Reads a `Link` header by the algorithm of RFC 8288 Appendix B.2: several links, relation lists, quoted pairs,
 * parameters without a value. Skips the rest after a link that cannot be read. Reads each character at most
 * twice.
 */
export function parseLinks(header: string | null | undefined): readonly Link[] {
  const text = header && header.length <= maxLength ? header : "";
  const links: Link[] = [];
  let at = skip(text, 0, isBlankOrComma);
  while (text[at] === "<") {
    const end = text.indexOf(">", at);
    if (end < 0) break;
    const target = text.slice(at + 1, end).trim();
    const parameters = readParameters(text, end + 1);
    const relations = (parameters.values.get("rel") ?? "").toLowerCase().split(/[\t ]+/);
    links.push({
      target,
      relations: relations.filter((relation) => relation !== ""),
      hasAnchor: (parameters.values.get("anchor") ?? "") !== "",
    });
    at = skip(text, parameters.end, isBlank);
    // RFC 8288 leaves open what stands between two links; nothing but a comma is taken
    if (text[at] !== ",") break;
    at = skip(text, at, isBlankOrComma);
  }
  return links;
}

/** Target of the first link with this relation to the resource that was asked for. */
export function linkWith(headers: Headers, relation: string): string | undefined {
  return parseLinks(headers.get("link")).find(
    ({ relations, hasAnchor }) => relations.includes(relation) && !hasAnchor,
  )?.target;
}

interface Parameters {
  /** First value of each name in lower case; empty for one without a value. */
  readonly values: ReadonlyMap<string, string>;
  readonly end: number;
}

/** RFC 8288 Appendix B.3. */
function readParameters(text: string, from: number): Parameters {
  const values = new Map<string, string>();
  let at = skip(text, from, isBlank);
  while (text[at] === ";") {
    const start = skip(text, at + 1, isBlank);
    at = skip(text, start, isInName);
    const name = text.slice(start, at).toLowerCase();
    at = skip(text, at, isBlank);
    let value = "";
    if (text[at] === "=") {
      at = skip(text, at + 1, isBlank);
      const isQuoted = text[at] === '"';
      const end = isQuoted ? endOfQuoted(text, at) : skip(text, at, isInValue);
      value = isQuoted ? unquoted(text.slice(at + 1, end)) : text.slice(at, end).trim();
      at = skip(text, end, isBlank);
    }
    if (name !== "" && !values.has(name)) values.set(name, value);
    // text after a blank in a name, or after a quoted value, belongs to nothing
    at = skip(text, at, isInValue);
  }
  return { values, end: at };
}

/** Behind the closing quote, or the end of the text where there is none. */
function endOfQuoted(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
  return Math.min(end + 1, text.length);
}

/** RFC 8288 Appendix B.4; the text begins behind the opening quote. */
function unquoted(text: string): string {
  let value = "";
  for (let at = 0; at < text.length && text[at] !== '"'; at += 1) {
    if (text[at] === "\\") at += 1;
    value += text[at] ?? "";
  }
  return value;
}

function skip(text: string, from: number, belongs: (character: string) => boolean): number {
  let at = from;
  while (at < text.length && belongs(text[at]!)) at += 1;
  return at;
}

const isBlank = (character: string): boolean => character === " " || character === "\t";
const isBlankOrComma = (character: string): boolean => isBlank(character) || character === ",";
const isInValue = (character: string): boolean => character !== ";" && character !== ",";
const isInName = (character: string): boolean =>
  isInValue(character) && !isBlank(character) && character !== "=";
