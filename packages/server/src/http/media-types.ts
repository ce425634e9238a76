import { parseMediaType } from "@sluice/core/internal";

/**
 * True for the types of MCP's own answers: JSON in any form and event streams. Bytes of such a
 * type must never be the direct response to a JSON-RPC request: a client could take them for one.
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

/**
 * The type under which a browser may show the content in a tab; `undefined` for all that is not on this list. Pictures, sound,
 * video, PDF and JSON have viewers that run nothing. Other text is shown as plain text, in UTF-8 unless it names its charset:
 * browsers read text without a charset as windows-1252.
 */
export function inlineType(mimeType: string): string | undefined {
  const parsed = parseMediaType(mimeType);
  if (parsed === undefined || isActiveType(mimeType) !== (parsed.essence === "application/pdf"))
    return undefined;
  const { essence, charset } = parsed;
  if (viewedTypes.has(essence) || /^(?:audio|video)\//.test(essence)) return mimeType;
  return essence.startsWith("text/") ? `text/plain; charset=${charset ?? "utf-8"}` : undefined;
}

function essenceOf(mimeType: string): string {
  return parseMediaType(mimeType)?.essence ?? "";
}

/** The JavaScript types of WHATWG MIME Sniffing §4.6. */
const script = /^(?:text|application)\/(?:x-)?(?:java|ecma|j|live)script(?:1\.\d)?$/;
const viewedTypes: ReadonlySet<string> = new Set([
  "application/json",
  "application/pdf",
  "image/apng",
  "image/avif",
  "image/bmp",
  "image/gif",
  "image/heic",
  "image/heif",
  "image/jpeg",
  "image/jxl",
  "image/png",
  "image/tiff",
  "image/vnd.microsoft.icon",
  "image/webp",
  "image/x-icon",
]);
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
