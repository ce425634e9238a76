import { definedMembers, SluiceError } from "@sluice/core";
import type { OpenedObject, OpenOptions } from "@sluice/storage";
import { quoteKey, resolveRange, holdLastChunk } from "@sluice/storage/plugin";
import type { Adapter, StoredFile } from "files-sdk";
import { callAdapter } from "./call.ts";
import { type AdapterFileInfo, strongEtag } from "./object-info.ts";
import { sliceBody } from "./slice.ts";

/**
 * Opens the version that `info` describes. An adapter with a native exact read opens that version or
 * fails. With the others `look` asks for the metadata again before the last chunk is handed on.
 */
export async function openFile(
  adapter: Adapter,
  info: AdapterFileInfo,
  look: () => Promise<AdapterFileInfo>,
  { range, ifMatch, signal }: OpenOptions,
): Promise<OpenedObject> {
  const { key, size, etag } = info;
  const operation = `files-sdk: open ${quoteKey(key)}`;
  const ensureSame = (isSame: boolean): void => {
    if (!isSame)
      throw new SluiceError("precondition_failed", `${operation}: the object has changed`);
  };
  ensureSame(ifMatch === undefined || ifMatch === etag);
  const resolved = range && resolveRange(range, size, operation);
  const { start, end } = resolved ?? { start: 0, end: size };
  const length = end - start;

  const asksRange = resolved !== undefined && length > 0 && adapter.supportsRange === true;
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

  // a service may ignore a range, and not every adapter looks
  const cameWhole = !asksRange || (file.size === size && length !== size);
  const body = sliceBody(file.stream(), {
    skip: cameWhole ? start : 0,
    length,
    cut: cameWhole && end < size,
    operation,
    signal,
  });
  const got = strongEtag(file.etag);
  if (got !== undefined && got !== etag) {
    await body.cancel();
    ensureSame(false);
  }
  const verify = async (): Promise<void> => ensureSame(isSameVersion(info, await look()));
  return {
    info,
    ...definedMembers({ range: resolved }),
    body: exactRead ? body : holdLastChunk(body, verify),
  };
}

function isSameVersion(before: AdapterFileInfo, now: AdapterFileInfo): boolean {
  return (
    before.etag === now.etag &&
    before.size === now.size &&
    before.lastModified?.getTime() === now.lastModified?.getTime()
  );
}
