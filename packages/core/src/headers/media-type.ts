import { fieldText, readParameters, readToken } from "./field-text.ts";

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
  const type = readToken(field);
  const subtype = readToken(field, type.length + 1);
  const essence = `${type}/${subtype}`;
  if (type === "" || subtype === "" || !field.startsWith(essence)) return undefined;
  const parameters = essence.length > 127 ? undefined : readParameters(field, essence.length);
  if (!parameters) return undefined;
  return {
    essence: essence.toLowerCase(),
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

/**
 * The format of a response that is probably the text of an error: services write errors in HTML, JSON or XML, and
 * some send them with status 200. `undefined` for any other type, and if `promised`, the type of the resource, is of
 * the same format or does not tell it. Gives `HTML`, `JSON` or `XML`.
 */
export function unpromisedFormat(
  found: string | null | undefined,
  promised: string | null | undefined,
): string | undefined {
  const format = messageFormat(found);
  const type = parseMediaType(promised)?.essence ?? "";
  const isPromised = /^$|octet-stream$|^text\/plain$/.test(type) || messageFormat(type) === format;
  return isPromised ? undefined : format;
}

function messageFormat(type: string | null | undefined): string | undefined {
  // including JSON lines, and JSON and XML with a suffix
  const [, one, other] = /(html$|json)|[/+](xml)$/.exec(parseMediaType(type)?.essence ?? "") ?? [];
  return (one ?? other)?.toUpperCase();
}
