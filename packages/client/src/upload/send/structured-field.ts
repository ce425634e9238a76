/** A non-negative integer of a structured field (RFC 9651 §3.3.1); `undefined` for anything else. */
export function parseIntegerField(text: string | null): number | undefined {
  const digits = /^ *(\d{1,15}) *(?:;.*)?$/.exec(text ?? "")?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** A boolean of a structured field (RFC 9651 §3.3.6); `undefined` for anything else. */
export function parseBooleanField(text: string | null): boolean | undefined {
  const bit = /^ *\?([01]) *(?:;.*)?$/.exec(text ?? "")?.[1];
  return bit === undefined ? undefined : bit === "1";
}

/** One integer of a dictionary such as `Upload-Limit` (RFC 9651 §3.2). */
export function parseLimit(text: string | null, key: string): number | undefined {
  for (const member of (text ?? "").split(",")) {
    const [name, value] = member.split("=", 2);
    if (name?.trim() === key) return parseIntegerField(value ?? null);
  }
  return undefined;
}
