import { decodeBase64Url, encodeBase64Url } from "@sluice/core";
import type { FileValue } from "@sluice/core/wire";

/** A SHA-256 as SEP-2631 §4 writes it; `sha256` is lower-case hex. */
export function formatDigest(sha256: string): NonNullable<FileValue["digest"]> {
  const bytes = Uint8Array.from(sha256.match(/../g)!, (byte) => Number.parseInt(byte, 16));
  return { algorithm: "sha-256", value: encodeBase64Url(bytes) };
}

/** The hex of a SHA-256 in base64url without padding; `undefined` for anything else. */
export function parseDigest(value: string): string | undefined {
  const bytes = value.length === 43 ? decodeBase64Url(value) : undefined;
  return bytes && Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
