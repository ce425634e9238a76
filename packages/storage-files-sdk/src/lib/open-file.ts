import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ObjectInfo, OpenedObject, OpenOptions } from "@sluice/storage";
import {
  createBody,
  ensureCondition,
  holdLastChunk,
  isOtherPage,
  resolveRange,
  sliceBody,
  toStrongEtag,
} from "@sluice/storage/plugin";
import type { Adapter, StoredFile } from "files-sdk";
import { callAdapter, createCause } from "./files-error.ts";

/** A request for one file. */
export interface OpenFileOptions extends OpenOptions {
  /** Start of messages. */
  readonly operation: string;
}

/**
 * Opens the version that `info` describes. An adapter with a native exact read opens that version or
 * fails. With the others `look` asks for the metadata again before the last chunk is handed on.
 */
export async function openFile(
  adapter: Adapter,
  info: AdapterFileInfo,
  look: () => Promise<AdapterFileInfo>,
  { range, ifMatch, signal, operation }: OpenFileOptions,
): Promise<OpenedObject> {
  const { key, size, etag } = info;
  ensureCondition(info, { ifMatch }, operation);
  const resolved = range && resolveRange(range, size, operation);
  const { start, end } = resolved ?? { start: 0, end: size };

  const asksRange = resolved !== undefined && start < end && adapter.supportsRange === true;
  const downloadOptions = {
    as: "stream" as const,
    // both bounds are inclusive there
    ...definedMembers({ range: asksRange ? { start, end: end - 1 } : undefined, signal }),
  };
  const exactRead = etag === undefined ? undefined : adapter.conditional?.exactRead;
  const file = await callAdapter(
    { operation, signal },
    () =>
      exactRead && etag !== undefined
        ? exactRead(key, etag, downloadOptions)
        : adapter.download(key, downloadOptions),
    (late: StoredFile) => {
      late
        .stream()
        .cancel()
        .catch(() => {});
    },
  );

  const got = toStrongEtag(file.etag);
  const isPart = asksRange && file.size === end - start;
  // the metadata are of another response: they do not prove that these bytes are the object's
  const isDoubtful =
    isOtherPage(file.type, info) ||
    (!isPart && file.size !== size && got === undefined) ||
    (ifMatch !== undefined && resolved !== undefined && got === undefined);
  const whole = toBody(file.stream(), operation, signal);
  // a service may ignore a range, and not every adapter looks
  const cameWhole = !asksRange || (file.size === size && end - start !== size);
  const body = cameWhole && resolved ? sliceBody(whole, resolved) : whole;
  if (isDoubtful || (got !== undefined && got !== etag)) {
    await body.cancel();
    throw isDoubtful
      ? new SluiceError("unavailable", `${operation}: the answer cannot be the object`)
      : changed(operation);
  }
  const verify = async (): Promise<void> => {
    if (!isSameVersion(info, await look())) throw changed(operation);
  };
  return {
    info,
    ...definedMembers({ range: resolved }),
    body: exactRead ? body : holdLastChunk(body, verify),
  };
}

function toBody(
  stream: ReadableStream<Uint8Array>,
  operation: string,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  return createBody({
    async next() {
      try {
        return (await reader.read()).value;
      } catch (error) {
        throw new SluiceError("interrupted", `${operation}: the connection broke`, {
          cause: createCause(error),
        });
      }
    },
    release: (reason) => reader.cancel(reason),
    signal,
  });
}

function changed(operation: string): SluiceError {
  return new SluiceError("precondition_failed", `${operation}: the object has changed`);
}

function isSameVersion(before: AdapterFileInfo, now: AdapterFileInfo): boolean {
  return (
    before.etag === now.etag &&
    before.size === now.size &&
    before.lastModified?.getTime() === now.lastModified?.getTime()
  );
}

/** The metadata that an adapter has before a read; it always has a size. */
export type AdapterFileInfo = ObjectInfo & { readonly size: number };

/** The metadata of `head`. Listings differ, because adapters guess types from names there. */
export function toObjectInfo(key: string, file: StoredFile): AdapterFileInfo {
  const info = toListedInfo(key, file);
  return isKnownType(file.type) ? { ...info, contentType: file.type } : info;
}

/** The metadata of one item of `list`. */
export function toListedInfo(
  key: string,
  { size, etag, lastModified }: StoredFile,
): AdapterFileInfo {
  return definedMembers({
    key,
    size,
    etag: toStrongEtag(etag),
    lastModified: lastModified === undefined ? undefined : new Date(lastModified),
  });
}

/** Where a service stores no type, adapters say that the object is bytes. */
function isKnownType(type: string): boolean {
  return type !== "" && type !== "application/octet-stream";
}
