// control and formatting characters: what could move the cursor, hide text or reorder it
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Text of a server, harmless on a terminal: one line, every control character shown as `\u{1b}`.
 * A server names its resources as it likes; without this it could write to the user's screen.
 */
export function printable(text: string): string {
  return text.replace(unprintable, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
}

/** A value as one line of JSON, as harmless on a terminal as {@link printable} text and as exact as JSON. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value).replace(unprintable, (char) =>
    Array.from({ length: char.length }, (_, at) => char.charCodeAt(at))
      .map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`)
      .join(""),
  );
}
