import { fieldText, readParameters, skipToken } from "./field-text.ts";
import { sanitizeFileName } from "./file-name.ts";

/** What a `Content-Disposition` header says (RFC 6266). */
export interface ContentDisposition {
  /** `attachment`, `inline` or another word, in lower case. */
  readonly type: string;
  /**
   * File names as the sender wrote them, best first: `filename*`, then `filename`. Untrusted:
   * pass them through `sanitizeFileName`.
   */
  readonly fileNames: readonly string[];
  /** Field of a form that a part belongs to (RFC 7578 §4.2); absent where there is no `name`. */
  readonly fieldName?: string;
}

/**
 * A `Content-Disposition: attachment` header for a name, which is sanitised first. Names outside
 * ASCII go in `filename*` too (RFC 6266 §4.3, RFC 8187).
 */
export function formatContentDisposition(name: string): string {
  const safe = sanitizeFileName(name);
  const ascii = safe.replace(/[^\x20-\x7e]|[\\%]/gu, "_");
  const plain = `attachment; filename="${ascii}"`;
  return ascii === safe ? plain : `${plain}; filename*=UTF-8''${encodeExtended(safe)}`;
}

/**
 * Reads a `Content-Disposition` header. `undefined` when it is absent, malformed, longer than 16,384
 * characters or gives a parameter twice: such a header is to be ignored as a whole. A `filename*` that is
 * not UTF-8 is passed over.
 */
export function parseContentDisposition(
  header: string | null | undefined,
): ContentDisposition | undefined {
  const text = fieldText(header).trim();
  const typeEnd = skipToken(text, 0);
  // blanks around "=" are those of RFC 2616, on which RFC 6266 builds
  const parameters = typeEnd > 0 ? readParameters(text, typeEnd, { isSpaced: true }) : undefined;
  if (!parameters) return undefined;
  const names = [decodeExtended(parameters.get("filename*")), parameters.get("filename")];
  const fieldName = parameters.get("name");
  return {
    type: text.slice(0, typeEnd).toLowerCase(),
    fileNames: names.filter((name) => name !== undefined && name !== "") as string[],
    ...(fieldName !== undefined && { fieldName }),
  };
}

/** RFC 8187 `value-chars`: what `encodeURIComponent` leaves bare beyond `attr-char` is encoded too. */
function encodeExtended(name: string): string {
  return encodeURIComponent(name).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function decodeExtended(value: string | undefined): string | undefined {
  const encoded = /^utf-8'[A-Za-z0-9-]*'(.*)$/i.exec(value ?? "")?.[1];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}
