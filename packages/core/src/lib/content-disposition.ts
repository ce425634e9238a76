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
 * Reads a `Content-Disposition` header. `undefined` when it is absent, malformed or gives a
 * parameter twice: such a header is to be ignored as a whole. A `filename*` that is not UTF-8 is
 * passed over.
 */
export function parseContentDisposition(
  header: string | null | undefined,
): ContentDisposition | undefined {
  const text = (header ?? "").trim();
  const type = new RegExp(`^${token}`).exec(text)?.[0];
  if (type === undefined) return undefined;
  const parameters = new Map<string, string>();
  const parameter = new RegExp(
    String.raw`[\t ]*;[\t ]*(?:(${token})[\t ]*=[\t ]*(?:(${token})|"((?:[^"\\]|\\.)*)"))?[\t ]*(?=;|$)`,
    "sy",
  );
  parameter.lastIndex = type.length;
  while (parameter.lastIndex < text.length) {
    const match = parameter.exec(text);
    if (!match) return undefined;
    if (match[1] === undefined) continue;
    const name = match[1].toLowerCase();
    if (parameters.has(name)) return undefined;
    parameters.set(name, match[2] ?? match[3]!.replace(/\\(.)/gs, "$1"));
  }
  const names = [decodeExtended(parameters.get("filename*")), parameters.get("filename")];
  return {
    type: type.toLowerCase(),
    fileNames: names.filter((name) => name !== undefined && name !== "") as string[],
  };
}

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";

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
