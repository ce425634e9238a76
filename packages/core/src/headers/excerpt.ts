/**
 * Control and direction characters, and line separators: characters that could hide text, reorder
 * it or begin a new line.
 */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * A text of another party for a message, on one line: every character that is not seen as itself is shown as `\u{202e}`, and of
 * more than `maxLength` characters only the beginning is left.
 */
export function excerpt(text: string, maxLength = 300): string {
  const beginning = text.length > maxLength ? `${text.slice(0, maxLength).trimEnd()}…` : text;
  return beginning.replace(unprintable, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
}
