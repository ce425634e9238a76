import { SluiceError } from "@sluice/core";
import { withoutCredentials } from "@sluice/core/internal";
import { ensureKey, quoteKey } from "./key.ts";

/** Translates between storage keys and the MCP resource URIs below one base. */
export interface UriMapper {
  /** The base, ending in `/`. */
  readonly baseUri: string;
  /** URI template of every object, for `resources/templates/list`: the base and `{+key}` (RFC 6570). */
  readonly template: string;
  /**
   * The one canonical URI of a key: `new URL(uri).href === uri` and `toKey(uri) === key`.
   * An illegal key throws `invalid_argument`.
   */
  toUri(key: string): string;
  /**
   * The key that a URI names; encodings that a client may choose (`%61`, a raw `(`) are decoded.
   * A URI outside the base throws `not_found`. One below it throws `invalid_argument` when it
   * has a query, a fragment, a backslash, broken percent-encoding, an encoded `/`, or names an
   * illegal key (an empty, `.` or `..` segment also after decoding).
   */
  toKey(uri: string): string;
}

/**
 * Creates the mapper of one base URI such as `files://demo/` or `repo://acme/docs/`.
 * The base must be in canonical form, end in `/`, and have no credentials, query, fragment or
 * braces; anything else is a `TypeError`.
 */
export function createUriMapper(baseUri: string): UriMapper {
  ensureBase(baseUri);
  return {
    baseUri,
    template: `${baseUri}{+key}`,
    toUri(key) {
      ensureKey(key, "storage: uri of");
      return baseUri + key.split("/").map(encodeSegment).join("/");
    },
    toKey(uri) {
      if (typeof uri !== "string" || !uri.startsWith(baseUri))
        throw new SluiceError(
          "not_found",
          `storage: resource ${quoteKey(uri)}: is not below ${baseUri}`,
        );
      const rest = uri.slice(baseUri.length);
      if (/[?#]/.test(rest))
        throw malformed(uri, "has a query or fragment; encode ? and # in names");
      const key = rest
        .split("/")
        .map((segment) => decodeSegment(segment, uri))
        .join("/");
      ensureKey(key, "storage: resource");
      return key;
    },
  };
}

function ensureBase(baseUri: string): void {
  const url = URL.canParse(baseUri) ? new URL(baseUri) : undefined;
  if (
    url === undefined ||
    url.href !== baseUri ||
    !/^[a-z][a-z0-9+.-]*:\/\//.test(baseUri) ||
    !baseUri.endsWith("/") ||
    url.username !== "" ||
    url.password !== "" ||
    /[?#{}\\]/.test(baseUri)
  )
    throw new TypeError(
      `createUriMapper: ${JSON.stringify(withoutCredentials(baseUri))} is not a base URI; write it like "files://demo/", with a slash at its end and the scheme and host in lower case`,
    );
}

/** Percent-encodes all but RFC 3986 unreserved characters, so that no parser rewrites the result. */
function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function decodeSegment(segment: string, uri: string): string {
  let text: string;
  try {
    text = decodeURIComponent(segment);
  } catch {
    throw malformed(uri, "has percent-encoding that is not UTF-8");
  }
  if (text.includes("/")) throw malformed(uri, 'has an encoded "/"');
  return text;
}

function malformed(uri: string, finding: string): SluiceError {
  return new SluiceError(
    "invalid_argument",
    `storage: resource ${quoteKey(uri)}: the URI ${finding}`,
  );
}
