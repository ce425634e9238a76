import { SluiceError } from "@sluice/core";
import { rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { randomPartName, saveBytes, saveFile } from "@sluice/client/internal";
import {
  createSha256,
  decodeAnyBase64,
  decodeBase64,
  fileNameFromUri,
  isSameResource,
  parseReprDigest,
} from "@sluice/core/internal";
import type { Reservation } from "../spool/files/room.ts";
import { membersOf, type Members } from "../messages/messages.ts";
import { findPlaces } from "../spool/found-places.ts";
import type { SpooledString } from "../spool/spooled-string.ts";
import {
  agree,
  agreedBytes,
  writeSaved,
  type Save,
  type SavedResource,
  type SaveSettings,
  withRoom,
} from "./save-call.ts";
import { callServer, cursorIn } from "./server-client.ts";
import type { ToolContext } from "./tool-context.ts";
import type { BridgeCalls } from "../messages/hooks.ts";

/** Bytes of a resource that came in one message: in memory, or in a file that the spool wrote. */
interface ContentBytes {
  readonly size: number;
  readonly sha256: string;
  /** Writes them to a new file. */
  readonly writeTo: (path: string, name: string) => Promise<unknown>;
}

/** The way of servers without streaming: one message, whose content the spool has written to a file. */
export async function saveContent(save: Save): Promise<SavedResource> {
  const { uri, call, context, settings } = save;
  const { signal } = call;
  const result = await callServer(context.calls(), "resources/read", { uri }, signal).catch(
    (error: unknown) => {
      throw isUnknownMethod(error) ? noResources(context) : error;
    },
  );
  const files = await claimFiles(result, settings);
  try {
    // what the spool wrote counts on, while the user is asked, too
    const claimedBytes = [...files.values()].reduce((sum, { bytes }) => sum + bytes, 0);
    return await withRoom(save, claimedBytes, (reservation) =>
      saveRead(result, files, save, reservation),
    );
  } finally {
    for (const { place } of files.values()) await settings.spoolFolder?.remove(place);
  }
}

function isUnknownMethod(error: unknown): boolean {
  return (error as { readonly code?: unknown }).code === methodNotFound;
}

const methodNotFound = -32_601;

function noResources({ server }: ToolContext): SluiceError {
  return new SluiceError(
    "unsupported",
    `bridge: ${server.name} has no resources; save a link that its tools give, or call its tools`,
  );
}

async function saveRead(
  result: Members,
  files: ReadonlyMap<string, SpooledString>,
  save: Save,
  reservation: Reservation,
): Promise<SavedResource> {
  const { uri, call, context, settings } = save;
  const content = onlyContent(result, uri);
  const { size, sha256, writeTo } = readBytes(content, files, uri);
  if (settings.maxBytes !== undefined && size > settings.maxBytes)
    throw new SluiceError(
      "too_large",
      `bridge: it has ${size} bytes, more than ${settings.maxBytes}`,
    );
  const verified = verifiedBy(
    await declaredFacts(context.calls(), uri, content, call.signal),
    { size, sha256 },
    uri,
  );
  if (
    size > agreedBytes(context) &&
    !(await agree(`Save 1 file, ${size} bytes, from ${context.server.name}?`, save))
  )
    throw new SluiceError("permission_denied", "bridge: the user declined; nothing was saved");
  const name = fileNameFromUri(uri) ?? "";
  await reservation.grow(size);
  return writeSaved(save, { name, mimeType: content["mimeType"] }, async (place) => {
    call.signal.throwIfAborted();
    await writeTo(place.held, name);
    return { size, sha256, verified, resumedBytes: 0 };
  });
}

/**
 * Takes the files that a result names out of the spool. Under their new names they are removed by the next bridge when this
 * one is killed.
 */
async function claimFiles(
  result: Members,
  { spooled }: SaveSettings,
): Promise<ReadonlyMap<string, SpooledString>> {
  const claimed = new Map<string, SpooledString>();
  const moved = new Map<string, string>();
  for (const { marker } of findPlaces(result, new Set(spooled.keys()))) {
    const file = spooled.get(marker);
    if (!file) continue;
    // equal strings share a file
    const place = moved.get(file.place) ?? join(dirname(file.place), randomPartName());
    if (!moved.has(file.place)) await rename(file.place, place);
    moved.set(file.place, place);
    spooled.delete(marker);
    claimed.set(marker, { ...file, place });
  }
  return claimed;
}

function readBytes(
  { blob, text }: Members,
  files: ReadonlyMap<string, SpooledString>,
  uri: string,
): ContentBytes {
  const content = blob ?? text;
  if (typeof content !== "string") throw malformed(uri);
  const file = files.get(content);
  if (file) {
    if (typeof blob === "string" && file.coding !== "base64") throw malformed(uri);
    const { bytes: size, sha256, place: from } = file;
    return { size, sha256, writeTo: (path, name) => saveFile(from, path, { name }) };
  }
  const bytes = bytesOf(blob, content, uri);
  const hash = createSha256();
  hash.update(bytes);
  return {
    size: bytes.length,
    sha256: hash.digest(),
    writeTo: (path, name) => saveBytes(bytes, path, { name }),
  };
}

/** Throws `corrupt` if the bytes are not those that the server declares. */
function verifiedBy(
  declared: DeclaredFacts,
  found: Pick<ContentBytes, "size" | "sha256">,
  uri: string,
): SavedResource["verified"] {
  const { size, sha256 } = declared;
  if (size !== undefined && size !== found.size)
    throw new SluiceError(
      "corrupt",
      `bridge: ${JSON.stringify(uri)} came with ${found.size} bytes, and the server says that it has ${size}`,
    );
  if (sha256 !== undefined && sha256 !== found.sha256)
    throw new SluiceError(
      "corrupt",
      `bridge: ${JSON.stringify(uri)} came with another SHA-256 than the server names`,
    );
  if (sha256 !== undefined) return "digest";
  return size === undefined ? "none" : "length";
}

function onlyContent({ contents }: Members, uri: string): Members {
  const list = Array.isArray(contents) ? (contents as unknown[]).map(membersOf) : [];
  const [content, another] = list;
  const { uri: named } = content ?? {};
  if (content && !another && typeof named === "string" && isSameResource(named, uri))
    return content;
  throw new SluiceError(
    "protocol",
    `bridge: the server answers with ${list.length} contents, not only with this resource`,
  );
}

function bytesOf(blob: unknown, text: string, uri: string): Uint8Array {
  if (typeof blob !== "string") return Buffer.from(text);
  const bytes = decodeAnyBase64(text);
  if (!bytes) throw malformed(uri);
  return bytes;
}

function malformed(uri: string): SluiceError {
  return new SluiceError("protocol", `bridge: the server sends ${JSON.stringify(uri)} malformed`);
}

/** What a server says of a resource beside its bytes. */
interface DeclaredFacts {
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
async function declaredFacts(
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
    for (let page = 0; page < maxPages; page++) {
      const result = await callServer(calls, "resources/list", params, inTime);
      const { resources } = result;
      const entries = Array.isArray(resources) ? (resources as unknown[]).map(membersOf) : [];
      const entry = entries.find(
        (content) => typeof content["uri"] === "string" && isSameResource(content["uri"], uri),
      );
      if (entry) return sizeIn(entry);
      const cursor = cursorIn(result);
      if (cursor === undefined) return undefined;
      params = { cursor };
    }
  } catch {
    // a server need not have a list
    signal.throwIfAborted();
  }
  return undefined;
}

/** A list need not end, or come. */
const maxPages = 20;
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
