import { bytesOfHex, decodeBase64, encodeBase64, hexOf } from "../bytes/base64.ts";
import { fieldText } from "./field-text.ts";

/** A `Repr-Digest` header (RFC 9530 §3) from a SHA-256 in hex. */
export function formatReprDigest(sha256: string): string {
  if (!/^[0-9a-f]{64}$/i.test(sha256))
    throw new TypeError("digest: a SHA-256 is 64 hex digits; pass what createSha256 gave");
  return `sha-256=:${encodeBase64(bytesOfHex(sha256))}:`;
}

/**
 * The SHA-256 of a `Repr-Digest` header in lower-case hex. Other algorithms beside it are passed
 * over; `undefined` when there is none, or when the field is malformed and so to be ignored as a
 * whole (RFC 9651 §4.2).
 */
export function parseReprDigest(header: string | null | undefined): string | undefined {
  const member = new RegExp(
    `(${key})(?:=(?:${byteSequence}|${otherItem}))?${parameters}${comma}`,
    "y",
  );
  const text = fieldText(header).trim();
  let sha256: string | undefined;
  while (member.lastIndex < text.length) {
    const match = member.exec(text);
    // a comma announces another member
    if (!match || (match[3] === "," && member.lastIndex === text.length)) return undefined;
    if (match[1] !== "sha-256") continue;
    const digest = decodeBase64(match[2] ?? "");
    sha256 = digest?.length === 32 ? hexOf(digest) : undefined;
  }
  return sha256;
}

// the grammar of a structured-field dictionary (RFC 9651 §3.2) without inner lists, which are not
// digests
const key = "[a-z*][a-z0-9_.*-]*";
const byteSequence = ":([A-Za-z0-9+/=]*):";
const otherItem = [
  String.raw`"(?:[ !#-\[\]-~]|\\["\\])*"`,
  "[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*",
  String.raw`-?\d{1,15}(?:\.\d{1,3})?`,
  String.raw`\?[01]`,
  String.raw`@-?\d{1,15}`,
].join("|");
const parameters = `(?:; *${key}(?:=(?::[A-Za-z0-9+/=]*:|${otherItem}))?)*`;
const comma = "(?:[\\t ]*(,)[\\t ]*|$)";
