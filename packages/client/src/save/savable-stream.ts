import { definedMembers, EXTENSION_ID, type KeptBytes, parseHttpDate } from "@sluice/core/internal";
import { type RequestingClient, outgoingCall } from "../calls/stream-calls.ts";
import { SluiceError } from "@sluice/core";
import { createResumableDownload } from "../download/resumable-download.ts";
import type { CheckedAnswer } from "../download/check-answer.ts";
import { httpExchange } from "../net/node/http-exchange.ts";
import { bodyOf, openResource, type OpenedResource } from "../download/open-resource.ts";
import type { ResourceStream } from "../download/resource-stream.ts";
import type { SavedFile, SaveOptions, SaveResourceOptions } from "../download/save-options.ts";
import { settingsOf, type StreamFacts, type StreamOptions } from "../download/stream-options.ts";
import { findKept, type OwnSaveOptions, saveOpened } from "./save-opened.ts";

/**
 * Asks an MCP server for the bytes of a resource (SEP-2532 §3) through an SDK client, version 1 or 2: one of `connect`,
 * or one whose transport has the fetch of `createStreaming`. A download URL is preferred unless `prefer` says otherwise:
 * it can be continued, and fetched in parallel.
 *
 * Rejects with `not_found`, `unsupported`, `too_large`, `permission_denied`, `unauthenticated`,
 * `throttled`, `untrusted`, `protocol`, `unavailable`, `timeout`, or with `signal.reason`.
 */
export async function streamResource(
  client: RequestingClient,
  uri: string,
  options: StreamOptions = {},
): Promise<ResourceStream> {
  const open = openerOf(client, uri, options);
  const opened = await open();
  return {
    ...opened.facts,
    body: bodyOf(opened),
    saveTo: (path, save = {}) => saveOpened(opened, open, path, save),
  };
}

/** A resource that was asked for to be saved. Save it or cancel it: one of the two, once. */
export interface SavableStream extends StreamFacts {
  saveTo(path: string, options?: OwnSaveOptions): Promise<SavedFile>;
  /** The server's `Last-Modified`, unix milliseconds. */
  readonly modifiedMs?: number;
  cancel(reason?: unknown): void;
}

/**
 * Asks for a resource as {@link streamResource} does, for a `saveTo` with `resume`: only for what follows the bytes that an
 * interrupted save left at `path`, which is the file or its folder. A response from byte 0 would fill the buffers of both
 * systems in vain.
 */
export async function streamToSave(
  client: RequestingClient,
  uri: string,
  path: string,
  options: StreamOptions & Pick<SaveOptions, "name"> = {},
): Promise<SavableStream> {
  const open = openerOf(client, uri, options);
  const opened = await open(await findKept(uri, path, options.name));
  const { headers } = (opened.download.latest() as CheckedAnswer).answer;
  return {
    ...opened.facts,
    ...definedMembers({ modifiedMs: parseHttpDate(headers.get("last-modified"), Date.now()) }),
    saveTo: (target, save = {}) => saveOpened(opened, open, target, save),
    cancel: opened.cancel,
  };
}

/** A part of a resource: from `start` up to and without `end`, or the last `suffix` bytes. */
export type WantedPart =
  | { readonly start: number; readonly end: number; readonly suffix?: never }
  | { readonly suffix: number };

/**
 * Writes a part of a resource, asked for as a range if the server has any. The part is of one version. Rejects as
 * {@link streamResource} and its `body` do, with `range_not_satisfiable` for a part that begins after the end, and with
 * `unsupported` for a suffix of a resource without a known size.
 */
export async function writePart(
  client: RequestingClient,
  uri: string,
  part: WantedPart,
  write: (chunk: Uint8Array) => Promise<void>,
  options: StreamOptions = {},
): Promise<void> {
  const open = openerOf(client, uri, options);
  const opened = await open();
  const { download, grants, settings, admit } = opened;
  // nothing waits for the last one if the part ends before the resource
  let writing: Promise<void> | undefined;
  const writeNext = (chunk: Uint8Array): Promise<void> => (writing = write(chunk));
  try {
    await admit();
    const { etag, size } = download.latest() as CheckedAnswer;
    const { start, end } = rangeOf(uri, part, size);
    const until = (): number => end;
    if (start > 0 && etag !== undefined && size !== undefined) {
      download.cancel();
      const before: KeptBytes = { receivedBytes: start, etag, size };
      const rest = createResumableDownload(uri, grants, settings, before);
      await rest.receive({ write: writeNext }, until);
    } else {
      const skip = (chunk: Uint8Array, at: number): Promise<void> | void => {
        const ownBytes = chunk.subarray(Math.max(0, start - at));
        return ownBytes.length > 0 ? writeNext(ownBytes) : undefined;
      };
      await download.receive({ write: skip }, until);
    }
    await writing;
  } finally {
    opened.cancel(new DOMException("the part is written", "AbortError"));
  }
}

function rangeOf(uri: string, part: WantedPart, size: number | undefined) {
  const name = JSON.stringify(uri);
  if (part.suffix !== undefined && size === undefined)
    throw new SluiceError("unsupported", `client: ${name} has no known size; pass a start`);
  const start = part.suffix === undefined ? part.start : Math.max(0, size! - part.suffix);
  const end = part.suffix === undefined ? part.end : size!;
  if (size !== undefined && start >= size && size > 0)
    throw new SluiceError(
      "range_not_satisfiable",
      `client: ${name} has ${size} bytes; pass a start before its end`,
    );
  return { start, end: Math.min(end, size ?? end) };
}

function openerOf(
  client: RequestingClient,
  uri: string,
  options: StreamOptions,
): (kept?: KeptBytes) => Promise<OpenedResource> {
  const settings = settingsOf({ prefer: ["downloadUrl", "redirect", "direct"], ...options });
  return (kept) => openResource(client, uri, settings, httpExchange, kept);
}

/**
 * Saves a resource as a file: {@link streamResource} and `saveTo` of its result, with the options of both. `path` is the
 * file, or a folder if it is one or ends with a separator. Rejects as the two do, and with a `TypeError` for a path that
 * is not text.
 */
export async function saveResource(
  client: RequestingClient,
  uri: string,
  path: string,
  options: SaveResourceOptions = {},
): Promise<SavedFile> {
  if (typeof path !== "string" || path === "")
    throw new TypeError(
      'client: saveResource(client, uri, path) takes a file or a folder, such as "downloads/"',
    );
  const stream = options.resume
    ? await streamToSave(client, uri, path, options)
    : await streamResource(client, uri, options);
  return stream.saveTo(path, options);
}

/** Options of {@link streamLinkToSave}. */
export interface StreamLinkOptions extends StreamOptions {
  /** URL of the MCP endpoint that named the link: its origin needs no trust, and gets no credentials. */
  readonly endpoint?: URL;
}

/**
 * Opens a link as {@link streamToSave} opens a resource: resumable, bounded, of the endpoint's origin or a trusted one.
 * Rejects with `untrusted` for any other, and as `streamResource` does.
 */
export function streamLinkToSave(
  link: string,
  path: string,
  { endpoint = nowhere, ...options }: StreamLinkOptions = {},
): Promise<SavableStream> {
  const client: RequestingClient = {
    async request({ method, params }) {
      const outgoing = outgoingCall({ id: 0, method, params });
      if (outgoing)
        outgoing.call.answer = { exchange: httpExchange, credentials: { endpoint }, isLink: true };
      return { uri: link, downloadUrl: link, _meta: { [EXTENSION_ID]: { auth: "self" } } };
    },
  };
  return streamToSave(client, link, path, options);
}

/** A reserved name (RFC 2606 §2): no link is of its origin. */
const nowhere = new URL("https://endpoint.invalid/");
