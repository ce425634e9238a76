/** Deepest nesting of arrays and objects in the JSON of another party. */
const maxLevels = 128;

/**
 * Parses JSON of another party. Throws a `SyntaxError` for invalid JSON, and, before any value is
 * made, for arrays and objects nested deeper than 128 levels. That message quotes nothing of the
 * text.
 */
export function parseJson(text: string): unknown {
  if (isTooComplex(text)) throw new SyntaxError(`JSON: nested deeper than ${maxLevels} levels`);
  return JSON.parse(text);
}

/**
 * True for nesting deeper than 128 levels, and for more than `maxContainers` arrays and objects: a parser takes long
 * for each, however small it is. Looks at each character once; for invalid JSON the result is arbitrary.
 */
export function isTooComplex(text: string, maxContainers: number = Infinity): boolean {
  let level = 0;
  let containers = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === quote) at = endOfString(text, at + 1);
    else if (code === openBracket || code === openBrace) {
      level += 1;
      containers += 1;
      if (level > maxLevels || containers > maxContainers) return true;
    } else if (code === closeBracket || code === closeBrace) level -= 1;
  }
  return false;
}

/** Where the string whose content begins at `from` has its closing quote. */
function endOfString(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    // NaN: the text has ended
    if (code === quote || Number.isNaN(code)) return at;
    at += code === backslash ? 2 : 1;
  }
}

const [quote, backslash] = [0x22, 0x5c];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];
