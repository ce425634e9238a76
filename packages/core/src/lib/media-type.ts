/** A media type without its parameters, and the one parameter that Sluice passes on. */
export interface MediaType {
  /** `type/subtype` in lower case. */
  readonly essence: string;
  /** Value of the `charset` parameter as it was written. */
  readonly charset?: string;
}

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const mediaType = new RegExp(`^(${token}/${token})(.*)$`);
const parameter = new RegExp(
  String.raw`[\t ]*;[\t ]*(?:(${token})=(?:(${token})|"((?:[\t !#-\[\]-~]|\\[\t -~])*)"))?`,
  "y",
);

/**
 * Reads a media type (RFC 9110 §8.3.1). `undefined` when it is absent or malformed, its essence is
 * longer than 127 characters, or a `charset` is given twice.
 */
export function parseMediaType(text: string | null | undefined): MediaType | undefined {
  const [, essence = "", rest = ""] = mediaType.exec((text ?? "").trim()) ?? [];
  if (essence === "" || essence.length > 127) return undefined;
  let charset: string | undefined;
  parameter.lastIndex = 0;
  while (parameter.lastIndex < rest.length) {
    const match = parameter.exec(rest);
    if (!match) return undefined;
    if (match[1]?.toLowerCase() !== "charset") continue;
    if (charset !== undefined) return undefined;
    charset = match[2] ?? match[3]?.replace(/\\(.)/g, "$1");
  }
  return { essence: essence.toLowerCase(), ...(charset !== undefined && { charset }) };
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
 * True for the types of MCP's own answers: JSON in any form and event streams. Bytes of such a
 * type must never be the direct answer to a JSON-RPC request: a client could take them for one.
 */
export function isProtocolType(essence: string): boolean {
  return (
    essence === "application/json" ||
    essence === "text/json" ||
    essence === "text/event-stream" ||
    essence.endsWith("+json")
  );
}

/** True for types that a browser may run or that pull in others; serve them as `application/octet-stream`. */
export function isActiveType(essence: string): boolean {
  return activeTypes.has(essence) || essence.endsWith("+xml") || script.test(essence);
}

/** The JavaScript types of WHATWG MIME Sniffing §4.6. */
const script = /^(?:text|application)\/(?:x-)?(?:java|ecma|j|live)script(?:1\.\d)?$/;
const activeTypes: ReadonlySet<string> = new Set([
  "text/html",
  "text/xml",
  "text/xsl",
  "text/css",
  "text/cache-manifest",
  "text/mathml",
  "application/xml",
  "application/wasm",
  "application/postscript",
  "application/pdf",
  "application/x-shockwave-flash",
  "application/vnd.adobe.flash.movie",
]);
