import { parseMediaType } from "@sluice/core";

/**
 * True for the types of MCP's own answers: JSON in any form and event streams. Bytes of such a
 * type must never be the direct answer to a JSON-RPC request: a client could take them for one.
 */
export function isProtocolType(mimeType: string): boolean {
  const essence = essenceOf(mimeType);
  return (
    essence === "application/json" ||
    essence === "text/json" ||
    essence === "text/event-stream" ||
    essence.endsWith("+json")
  );
}

/** True for types that a browser may run or that pull in others; serve them as `application/octet-stream`. */
export function isActiveType(mimeType: string): boolean {
  const essence = essenceOf(mimeType);
  return activeTypes.has(essence) || essence.endsWith("+xml") || script.test(essence);
}

/** True for types that the viewers of browsers show by themselves, out of reach of the site: no page runs them. */
export function isViewedType(mimeType: string): boolean {
  return essenceOf(mimeType) === "application/pdf" || !isActiveType(mimeType);
}

/** The type with a charset where it is text without one: browsers read that as windows-1252. */
export function typeToShow(mimeType: string): string {
  const parsed = parseMediaType(mimeType);
  const isBare = parsed?.essence.startsWith("text/") === true && parsed.charset === undefined;
  return isBare ? `${parsed.essence}; charset=utf-8` : mimeType;
}

function essenceOf(mimeType: string): string {
  return parseMediaType(mimeType)?.essence ?? "";
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
