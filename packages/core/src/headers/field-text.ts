/**
 * Longest header field that is parsed, in characters; a longer one counts as malformed. 16,384, what Node takes
 * for all the fields of a message.
 */
const maxFieldLength = 16_384;

/** The text of a header field that is to be parsed; empty when it is absent or too long. */
export function fieldText(header: string | null | undefined): string {
  return header !== null && header !== undefined && header.length <= maxFieldLength ? header : "";
}

/** Where the blanks (space, tab) that begin at `at` end. */
function skipBlanks(text: string, at: number): number {
  let end = at;
  while (text[end] === " " || text[end] === "\t") end += 1;
  return end;
}

/** Where the token (RFC 9110 §5.6.2) that begins at `at` ends; `at` itself when there is none. */
export function skipToken(text: string, at: number): number {
  let end = at;
  while (isTokenCharacter(text.charCodeAt(end))) end += 1;
  return end;
}

/** The quoted string (RFC 9110 §5.6.4) that begins at `at`; `undefined` when none does, or it has no end. */
function readQuoted(
  text: string,
  at: number,
): { readonly value: string; readonly end: number } | undefined {
  if (text[at] !== '"') return undefined;
  const pieces: string[] = [];
  let from = at + 1;
  for (let end = from; end < text.length; end += 1) {
    if (text[end] === '"') {
      pieces.push(text.slice(from, end));
      return { value: pieces.join(""), end: end + 1 };
    }
    if (text[end] === "\\") {
      pieces.push(text.slice(from, end));
      end += 1;
      from = end;
    }
    if (isControl(text.charCodeAt(end))) return undefined;
  }
  return undefined;
}

/** How the parameters of a field are written. */
interface ParameterForm {
  /** Blanks may stand around `=`, as in RFC 2616. Default: malformed, as in RFC 9110 §5.6.6. */
  readonly isSpaced?: boolean;
}

/**
 * The parameters from `at` to the end of `text`, names in lower case. `undefined` when any is malformed or there
 * twice. Reads each character once.
 */
export function readParameters(
  text: string,
  at: number,
  { isSpaced = false }: ParameterForm = {},
): ReadonlyMap<string, string> | undefined {
  const parameters = new Map<string, string>();
  const skip = (from: number): number => (isSpaced ? skipBlanks(text, from) : from);
  let end = skipBlanks(text, at);
  while (end < text.length) {
    if (text[end] !== ";") return undefined;
    const start = skipBlanks(text, end + 1);
    end = start;
    if (start === text.length || text[start] === ";") continue;
    end = skipToken(text, start);
    const name = text.slice(start, end).toLowerCase();
    end = skip(end);
    if (name === "" || parameters.has(name) || text[end] !== "=") return undefined;
    const from = skip(end + 1);
    const quoted = readQuoted(text, from);
    end = quoted?.end ?? skipToken(text, from);
    if (end === from) return undefined;
    parameters.set(name, quoted?.value ?? text.slice(from, end));
    end = skipBlanks(text, end);
  }
  return parameters;
}

const tokenCharacters = new Set(
  Array.from("!#$%&'*+.^_`|~-0123456789", (character) => character.charCodeAt(0)),
);

function isTokenCharacter(code: number): boolean {
  const lower = code | 0x20;
  return tokenCharacters.has(code) || (lower >= 0x61 && lower <= 0x7a && code >= 0x41);
}

function isControl(code: number): boolean {
  return (code < 0x20 && code !== 0x09) || code === 0x7f;
}
