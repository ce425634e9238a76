import { createReadStream } from "node:fs";
import { rm } from "node:fs/promises";
import {
  createSha256,
  decodeBase64,
  fileNameFromUri,
  isSameResource,
  SluiceError,
} from "@sluice/core";
import { membersOf, type Members } from "../relay/messages.ts";
import { findPlaces } from "../spool/found-places.ts";
import type { SpooledStrings } from "../spool/spooled-string.ts";
import { agree, agreedBytes, type Save, type SavedResource } from "./save-call.ts";
import { callServer } from "./server-client.ts";

/** The way of servers without streaming: one message, whose content the spool has written to a file. */
export async function saveContent(save: Save): Promise<SavedResource> {
  const { uri, call, context, settings } = save;
  const { signal } = call;
  const result = await callServer(context.calls(), "resources/read", { uri }, signal);
  const markers = markersIn(result, settings.spooled);
  try {
    return await saveRead(result, save);
  } finally {
    for (const marker of markers) await dropFile(marker, settings.spooled);
  }
}

async function saveRead(result: Members, save: Save): Promise<SavedResource> {
  const { uri, path, call, context, settings } = save;
  const content = onlyContent(result, uri);
  const { blob, text } = content;
  const given = blob ?? text;
  if (typeof given !== "string") throw malformed(uri);
  const file = settings.spooled.get(given);
  if (file && typeof blob === "string" && file.coding !== "base64") throw malformed(uri);
  const bytes = file ? undefined : bytesOf(blob, given, uri);
  const size = file?.bytes ?? (bytes as Uint8Array).length;
  if (size > settings.maxBytes)
    throw new SluiceError(
      "too_large",
      `bridge: it has ${size} bytes, more than ${settings.maxBytes}`,
    );
  if (
    size > agreedBytes(context) &&
    !(await agree(`Save 1 file, ${size} bytes, from ${context.server.name}?`, save))
  )
    throw new SluiceError("permission_denied", "bridge: the user declined; nothing was saved");
  const place = await settings.folder.place(path, fileNameFromUri(uri) ?? "");
  const source = file ? createReadStream(file.place) : once(bytes as Uint8Array);
  await settings.folder.write(place, source, { size, signal: call.signal });
  const sha256 = file?.sha256 ?? hashOf(bytes as Uint8Array);
  return { path: place.path, size, sha256, verified: "none", resumedBytes: 0 };
}

/** What stands in a result for strings that went to files. */
function markersIn(result: Members, spooled: SpooledStrings): string[] {
  return findPlaces(result, new Set(spooled.keys())).map(({ marker }) => marker);
}

async function dropFile(marker: string, spooled: SpooledStrings): Promise<void> {
  const file = spooled.get(marker);
  spooled.delete(marker);
  if (file) await rm(file.place, { force: true });
}

function onlyContent({ contents }: Members, uri: string): Members {
  const list = Array.isArray(contents) ? (contents as unknown[]).map(membersOf) : [];
  const [content, another] = list;
  const { uri: named } = content ?? {};
  if (content && !another && typeof named === "string" && isSameResource(named, uri))
    return content;
  throw new SluiceError(
    "protocol",
    `bridge: the server answers with ${list.length} contents, not with this resource alone`,
  );
}

function bytesOf(blob: unknown, text: string, uri: string): Uint8Array {
  if (blob === undefined) return Buffer.from(text);
  const bytes = decodeBase64(text);
  if (!bytes) throw malformed(uri);
  return bytes;
}

function malformed(uri: string): SluiceError {
  return new SluiceError("protocol", `bridge: the server sends ${JSON.stringify(uri)} malformed`);
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function hashOf(bytes: Uint8Array): string {
  const hash = createSha256();
  hash.update(bytes);
  return hash.digest();
}
