import { decodeBase64, isSameResource, parseReprDigest } from "@sluice/core";
import type { BridgeCalls } from "../messages/hooks.ts";
import { membersOf, type Members } from "../messages/messages.ts";
import { callServer } from "./server-client.ts";

/** What a server says of a resource beside its bytes. */
export interface DeclaredFacts {
  /** Bytes. */
  readonly size: number | undefined;
  /** SHA-256 in lower-case hex. */
  readonly sha256: string | undefined;
}

/**
 * The facts in the content of a `resources/read`: its own `size`, or the one in the server's list, and a digest in `_meta`.
 * MCP names no member for that: what counts is one called `sha256` or `digest`, also behind a prefix, as hexadecimal, as
 * base64, as RFC 9530 has it or as SEP-2631 has it.
 */
export async function declaredFacts(
  calls: BridgeCalls,
  uri: string,
  content: Members,
  signal: AbortSignal,
): Promise<DeclaredFacts> {
  const size = sizeIn(content) ?? (await listedSize(calls, uri, signal));
  return { size, sha256: digestIn(membersOf(content["_meta"])) };
}

function sizeIn({ size }: Members): number | undefined {
  return Number.isSafeInteger(size) ? (size as number) : undefined;
}

async function listedSize(
  calls: BridgeCalls,
  uri: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  let params: Members = {};
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(listMs)]);
  try {
    for (let page = 0; page < mostPages; page++) {
      const result = await callServer(calls, "resources/list", params, inTime);
      const { resources, nextCursor } = result;
      const listed = Array.isArray(resources) ? (resources as unknown[]).map(membersOf) : [];
      const found = listed.find(
        (entry) => typeof entry["uri"] === "string" && isSameResource(entry["uri"], uri),
      );
      if (found) return sizeIn(found);
      if (typeof nextCursor !== "string") return undefined;
      params = { cursor: nextCursor };
    }
  } catch {
    // a server need not have a list
    signal.throwIfAborted();
  }
  return undefined;
}

/** A list need not end, or come. */
const mostPages = 20;
const listMs = 10_000;

function digestIn(meta: Members): string | undefined {
  for (const [member, value] of Object.entries(meta))
    if (/(?:^|[/.])(?:sha-?256|digest)$/i.test(member)) {
      const digest = sha256Of(value);
      if (digest !== undefined) return digest;
    }
  return undefined;
}

function sha256Of(value: unknown): string | undefined {
  const { algorithm, value: inner } = membersOf(value);
  if (algorithm === "sha-256") return sha256Of(inner);
  if (typeof value !== "string" || value.length > longestDigest) return undefined;
  if (/^[0-9a-f]{64}$/i.test(value)) return value.toLowerCase();
  const base64 = value.replaceAll("-", "+").replaceAll("_", "/");
  const bytes = /^[\w+/-]{43}=?$/.test(value) ? decodeBase64(base64.slice(0, 43) + "=") : undefined;
  return bytes ? Buffer.from(bytes).toString("hex") : parseReprDigest(value);
}

const longestDigest = 1_000;
