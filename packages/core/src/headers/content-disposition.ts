import { fieldText, readParameters, readToken } from "./field-text.ts";
import { sanitizeFileName, trueFileName } from "./file-name.ts";

/** A parsed `Content-Disposition` header (RFC 6266). */
export interface ContentDisposition {
  /** `attachment`, `inline` or another word, in lower case. */
  readonly type: string;
  /**
   * File names as the sender wrote them, best first: `filename*`, then `filename`. Untrusted:
   * pass them through `localFileName` or `sanitizeFileName`.
   */
  readonly fileNames: readonly string[];
  /** Field of a form that a part belongs to (RFC 7578 §4.2); absent if there is no `name`. */
  readonly fieldName?: string | undefined;
}

/**
 * A `Content-Disposition` header. `filename*` has the name as it is (`trueFileName`, RFC 8187), `filename`
 * an ASCII one that is safe anywhere (RFC 6266 §4.3, appendix D); the first is left out where they are the same.
 */
export function formatContentDisposition(
  name: string,
  type: "attachment" | "inline" = "attachment",
): string {
  const exact = trueFileName(name);
  const ascii = sanitizeFileName(exact.replace(/\P{ASCII}|[\\%]/gu, "_"));
  const plain = `${type}; filename="${ascii}"`;
  return ascii === exact ? plain : `${plain}; filename*=UTF-8''${encodeExtended(exact)}`;
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
  const type = readToken(text);
  // blanks around "=" are those of RFC 2616, on which RFC 6266 builds
  const parameters =
    type === "" ? undefined : readParameters(text, type.length, { isSpaced: true });
  if (!parameters) return undefined;
  const names = [decodeExtended(parameters.get("filename*")), parameters.get("filename")];
  return {
    type: type.toLowerCase(),
    fileNames: names.filter((name) => name !== undefined && name !== "") as string[],
    fieldName: parameters.get("name"),
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
