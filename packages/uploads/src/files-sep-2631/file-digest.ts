import type { FileValue } from "@sluice/core/wire";

/** A SHA-256 as SEP-2631 §4 writes it; `sha256` is lower-case hex. */
export function formatDigest(sha256: string): NonNullable<FileValue["digest"]> {
  const bytes = sha256.match(/../g)!.map((byte) => Number.parseInt(byte, 16));
  const base64 = btoa(String.fromCharCode(...bytes));
  const value = base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return { algorithm: "sha-256", value };
}

/** The hex of a SHA-256 in base64url without padding; `undefined` for anything else. */
export function parseDigest(value: string): string | undefined {
  if (!/^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/.test(value)) return undefined;
  const bytes = atob(value.replaceAll("-", "+").replaceAll("_", "/"));
  return Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}
