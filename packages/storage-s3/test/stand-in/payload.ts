import { createHash } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { checksumOf } from "./checksum.ts";
import type { Deviation } from "./options.ts";
import { Refusal } from "./refusal.ts";

const minChunkBytes = 8192;

/** The body of a request, without its framing, after its checksums were found right. */
export interface Payload {
  readonly bytes: Buffer;
  /** Checksums that came with it, by algorithm ("sha256"), in base64. */
  readonly checksums: Readonly<Record<string, string>>;
}

/** Reads and checks the body of a request. Throws a {@link Refusal}. */
export async function readPayload(
  request: IncomingMessage,
  deviates: (deviation: Deviation) => boolean,
): Promise<Payload> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const raw = Buffer.concat(chunks);
  const { headers } = request;
  const kind = String(headers["x-amz-content-sha256"] ?? "UNSIGNED-PAYLOAD");
  if (kind.startsWith("STREAMING-AWS4")) throw new Refusal(501, "NotImplemented");
  if (kind !== "STREAMING-UNSIGNED-PAYLOAD-TRAILER" || deviates("keeps-framing")) {
    if (/^[0-9a-f]{64}$/.test(kind) && hex("sha256", raw) !== kind)
      throw new Refusal(400, "XAmzContentSHA256Mismatch");
    return { bytes: raw, checksums: deviates("ignores-checksums") ? {} : verify(headers, raw) };
  }
  const { bytes, trailers } = takeOffFraming(raw);
  if (bytes.length !== Number(headers["x-amz-decoded-content-length"]))
    throw new Refusal(400, "IncompleteBody");
  if (deviates("ignores-checksums")) return { bytes, checksums: {} };
  return { bytes, checksums: verify({ ...headers, ...trailers }, bytes) };
}

function verify(headers: IncomingHttpHeaders, bytes: Buffer): Readonly<Record<string, string>> {
  const md5 = headers["content-md5"];
  if (md5 !== undefined && Buffer.from(String(md5), "base64").toString("hex") !== hex("md5", bytes))
    throw new Refusal(400, "BadDigest");
  const checksums: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const algorithm = /^x-amz-checksum-(?!algorithm$|mode$|type$)(\w+)$/.exec(name)?.[1];
    if (algorithm === undefined) continue;
    if (checksumOf(algorithm, bytes) !== value) throw new Refusal(400, "BadDigest");
    checksums[algorithm] = String(value);
  }
  return checksums;
}

/** Unpacks `aws-chunked`: chunks with their length in hex before them, then trailers. */
function takeOffFraming(raw: Buffer): { bytes: Buffer; trailers: Record<string, string> } {
  const chunks: Buffer[] = [];
  let position = 0;
  for (;;) {
    const lineEnd = raw.indexOf("\r\n", position);
    if (lineEnd < 0) throw new Refusal(400, "IncompleteBody");
    const length = Number.parseInt(raw.toString("latin1", position, lineEnd), 16);
    position = lineEnd + 2;
    if (length === 0) break;
    if ((chunks.at(-1)?.length ?? minChunkBytes) < minChunkBytes)
      throw new Refusal(403, "InvalidChunkSizeError");
    chunks.push(raw.subarray(position, position + length));
    position += length + 2;
  }
  const trailers: Record<string, string> = {};
  for (const line of raw.toString("latin1", position).split("\r\n")) {
    const [name = "", value] = line.split(":");
    if (value !== undefined) trailers[name.toLowerCase()] = value.trim();
  }
  return { bytes: Buffer.concat(chunks), trailers };
}

/** As long as the MD5 of S3, which is opaque to clients; processors take half as long for this one. */
export function etagOf(bytes: Uint8Array): string {
  return hex("sha256", bytes).slice(0, 32);
}

export function hex(algorithm: "md5" | "sha256", bytes: Uint8Array): string {
  return createHash(algorithm).update(bytes).digest("hex");
}
