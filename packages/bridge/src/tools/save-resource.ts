import { createReadStream } from "node:fs";
import { rm } from "node:fs/promises";
import {
  formatScale,
  streamResource,
  type Consent,
  type RequestingClient,
  type SavableStream,
} from "@sluice/client";
import {
  createSha256,
  decodeBase64,
  fileNameFromUri,
  isSameResource,
  SluiceError,
} from "@sluice/core";
import type { SaveFolder } from "../confine/save-folder.ts";
import { membersOf, type Members } from "../relay/messages.ts";
import type { SpooledStrings } from "../spool/spooled-string.ts";
import { callServer, createLinkClient, createServerClient, placeholder } from "./server-client.ts";
import { optionalText, textArgument, type ToolCall } from "./tool-answer.ts";
import { askAboveBytes, yesAdvice, type ToolContext } from "./tool-context.ts";

/** A file that `save_resource` made. */
export interface SavedResource {
  readonly path: string;
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
  /** What it was compared with: the server's digest, its length, or nothing. */
  readonly verified: "digest" | "length" | "none";
  readonly resumedBytes: number;
}

/** Where files go, and how large they may be. */
export interface SaveSettings {
  readonly folder: SaveFolder;
  /** Most bytes of one file. */
  readonly maxBytes: number;
  /** Strings of answers that went to files. */
  readonly spooled: SpooledStrings;
}

/**
 * Saves a resource by the server's own way: `resources/stream`, else from a link of a trusted origin, else by
 * `resources/read`. Each file appears whole or not at all.
 */
export async function saveForHost(
  call: ToolCall,
  context: ToolContext,
  settings: SaveSettings,
): Promise<SavedResource> {
  const uri = textArgument(call.args, "uri");
  const path = optionalText(call.args, "path");
  const save: Save = { uri, path, call, context, settings };
  const isLink = /^https?:\/\//i.test(uri);
  let refusal: SluiceError | undefined;
  if (!isLink || context.streams()) {
    const client = createServerClient(context.calls(), context.server.kind);
    const stream = await openStream(client, save).catch((error: unknown) => {
      if (!isStreamless(error, context)) throw error;
    });
    if (stream) return saveStream(stream, save);
  }
  if (isLink) {
    const { server } = context;
    const endpoint = server.url ?? loopbackTrust(context) ?? placeholder;
    const stream = await openStream(createLinkClient(uri, endpoint), save).catch(
      (error: unknown) => {
        if (!SluiceError.is(error) || error.code !== "untrusted") throw error;
        refusal = error;
      },
    );
    if (stream) return saveStream(stream, save);
  }
  return saveContent(save).catch((error: unknown) => {
    throw refusal ?? error;
  });
}

interface Save {
  readonly uri: string;
  readonly path: string | undefined;
  readonly call: ToolCall;
  readonly context: ToolContext;
  readonly settings: SaveSettings;
}

function openStream(client: RequestingClient, save: Save): Promise<SavableStream> {
  const { call, context, settings } = save;
  const tooMuch = new AbortController();
  const consent: Consent = (scale) => {
    // one of unknown size may have as much as was agreed to before
    if (scale.unknownSizes > 0 || scale.bytes <= agreedBytes(context)) return true;
    return agree(`Save ${formatScale(scale)}?`, save);
  };
  return streamResource(client, save.uri, {
    signal: AbortSignal.any([call.signal, tooMuch.signal]),
    maxStreamSize: settings.maxBytes,
    trustedOrigins: context.trustedOrigins,
    consent,
    onProgress({ receivedBytes, totalBytes }) {
      call.progress(receivedBytes, totalBytes);
      if (totalBytes === undefined && receivedBytes > agreedBytes(context))
        tooMuch.abort(unboundedFault(agreedBytes(context)));
    },
  });
}

async function saveStream(stream: SavableStream, { path, settings }: Save): Promise<SavedResource> {
  try {
    const place = await settings.folder.place(path, stream.name);
    return await stream.saveTo(place.path, { resume: true });
  } catch (error) {
    await stream.body.cancel(error).catch(() => {});
    throw error;
  }
}

function unboundedFault(bytes: number): SluiceError {
  return new SluiceError(
    "too_large",
    `bridge: the server does not tell the size, and it is more than ${bytes} bytes; ${yesAdvice}`,
  );
}

/** True when the error says that the server does not stream this resource. */
function isStreamless(error: unknown, { streams }: ToolContext): boolean {
  if (!SluiceError.is(error)) return false;
  return error.code === "unsupported" || (!streams() && otherAnswers.has(error.code));
}

/** Servers that know no such method have several numbers for it. */
const otherAnswers: ReadonlySet<string> = new Set([
  "invalid_argument",
  "protocol",
  "internal",
  "unavailable",
  "not_found",
]);

/** The way of servers without streaming: one message, whose content the spool has written to a file. */
async function saveContent(save: Save): Promise<SavedResource> {
  const { uri, path, call, context, settings } = save;
  const { signal } = call;
  const result = await callServer(context.calls(), "resources/read", { uri }, signal);
  const content = onlyContent(result, uri);
  const { blob, text } = content;
  const marker = blob ?? text;
  const file = typeof marker === "string" ? settings.spooled.get(marker) : undefined;
  if (typeof marker !== "string") throw malformed(uri);
  if (file && typeof blob === "string" && file.coding !== "base64") throw malformed(uri);
  const bytes = file ? undefined : bytesOf(blob, marker, uri);
  const size = file?.bytes ?? (bytes as Uint8Array).length;
  try {
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
    const source = file ? createReadStream(file.path) : once(bytes as Uint8Array);
    await settings.folder.write(place, source, { size, signal });
    const sha256 = file?.sha256 ?? hashOf(bytes as Uint8Array);
    return { path: place.path, size, sha256, verified: "none", resumedBytes: 0 };
  } finally {
    settings.spooled.delete(marker);
    if (file) await rm(file.path, { force: true });
  }
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

function agreedBytes({ agreedBytes: said = askAboveBytes }: ToolContext): number {
  return said;
}

function agree(message: string, { call, context }: Save): Promise<boolean> {
  return context.questions.agree(call.request, message, { signal: call.signal, advice: yesAdvice });
}

/** Plain HTTP works between loopback addresses: the first that the user named stands for the endpoint. */
function loopbackTrust({ trustedOrigins }: ToolContext): URL | undefined {
  const found = trustedOrigins.find((origin) => origin.startsWith("http:"));
  return found === undefined ? undefined : new URL(found);
}
