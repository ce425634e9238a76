/**
 * The content codings that a `Content-Encoding` (RFC 9110 §8.4) names, in lower case and in the order in which they
 * were applied; empty if it changes no byte: `identity`, and what uploaders write by mistake, such as a charset.
 */
export function contentCodings(header: string | null | undefined): string[] {
  const names = (header ?? "").toLowerCase().split(",");
  return names.map((name) => name.trim()).filter((name) => name !== "" && !unchanging.has(name));
}

/** Charsets and encodings of mail: no registered coding, and the bytes are stored without them. */
const unchanging: ReadonlySet<string> = new Set([
  "7bit",
  "8bit",
  "ascii",
  "base64",
  "binary",
  "identity",
  "none",
  "us-ascii",
  "utf-8",
  "utf8",
]);
