/** Deepest nesting of arrays and objects in the JSON of another party. */
export const maxLevels: number = 128;

/**
 * Parses JSON of another party. Throws `SyntaxError` for what is no JSON, and for arrays and objects
 * nested deeper than 128 levels: that is told from the text, before anything is made of it.
 */
export function parseJson(text: string): unknown {
  if (isNestedTooDeep(text)) throw new SyntaxError(`JSON: nested deeper than ${maxLevels} levels`);
  return JSON.parse(text);
}

/** True for JSON nested deeper than {@link maxLevels}. Looks at each character once; text that is no JSON gives any answer. */
export function isNestedTooDeep(text: string): boolean {
  let level = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === quote) at = endOfString(text, at + 1);
    else if (code === openBracket || code === openBrace) {
      level += 1;
      if (level > maxLevels) return true;
    } else if (code === closeBracket || code === closeBrace) level -= 1;
  }
  return false;
}

/** Where the string whose content begins at `from` has its closing quote. */
function endOfString(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    // NaN: the text is over
    if (code === quote || Number.isNaN(code)) return at;
    at += code === backslash ? 2 : 1;
  }
}

const [quote, backslash] = [0x22, 0x5c];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];
