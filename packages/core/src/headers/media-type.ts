import { fieldText, readParameters, skipToken } from "./field-text.ts";

/** A media type without its parameters, and those of them that Sluice needs. */
export interface MediaType {
  /** `type/subtype` in lower case. */
  readonly essence: string;
  /** Value of the `charset` parameter as it was written. */
  readonly charset?: string | undefined;
  /** Value of the `boundary` parameter (RFC 2046 §5.1.1). */
  readonly boundary?: string | undefined;
}

/**
 * Reads a media type (RFC 9110 §8.3.1). `undefined` when it is absent, malformed or longer than 16,384
 * characters, its essence is longer than 127, or a parameter is given twice.
 */
export function parseMediaType(text: string | null | undefined): MediaType | undefined {
  const field = fieldText(text).trim();
  const slash = skipToken(field, 0);
  const end = skipToken(field, slash + 1);
  if (slash === 0 || field[slash] !== "/" || end === slash + 1 || end > 127) return undefined;
  const parameters = readParameters(field, end);
  if (!parameters) return undefined;
  return {
    essence: field.slice(0, end).toLowerCase(),
    charset: parameters.get("charset"),
    boundary: parameters.get("boundary"),
  };
}

/**
 * A `Content-Type` header that is safe to send for a stored type: its essence, with the charset
 * for `text/*` only. Anything malformed or absent is `application/octet-stream`.
 */
export function formatContentType(text: string | null | undefined): string {
  const parsed = parseMediaType(text);
  if (!parsed) return "application/octet-stream";
  const { essence, charset } = parsed;
  if (!essence.startsWith("text/") || !charset || !/^[\w.:+-]{1,40}$/.test(charset)) return essence;
  return `${essence}; charset=${charset}`;
}
