import { createMemoryUploadStore } from "@sluice/state/internal";
import type { StorageBackend, WritableBackend } from "@sluice/storage";
import type { Scan } from "@sluice/uploads";
import { describe, expect, test } from "vitest";
import { QuotaTracker } from "../src/limits/quota-tracker.ts";
import { ChecksMemory } from "../src/checks/file-checks.ts";
import { PartialFiles } from "../src/resumable/partial-files.ts";
import { ProgressTracker } from "../src/slots/progress-tracker.ts";
import { SlotTokens } from "../src/slots/slot-token.ts";
import { toUploadStorage } from "../src/store/upload-storage.ts";
import { SlotFiles } from "../src/store/slot-files.ts";
import { alice, bearer, noise, storageKinds, type UploadServer } from "./upload-server.ts";

/** The files in steps of a server, without its locks. */
function partialFilesOf({ errors }: UploadServer, backend: StorageBackend, scan: Scan) {
  const onError = (error: unknown): void => void errors.push(error);
  const storage = toUploadStorage(backend as WritableBackend);
  const store = createMemoryUploadStore();
  const quota = new QuotaTracker({ store, seedEveryMs: 60_000, onError });
  const files = new SlotFiles({ storage, scan, quota, onError });
  const progress = new ProgressTracker();
  const memory = new ChecksMemory();
  return new PartialFiles({ storage, files, quota, progress, memory, onError });
}

const claim = { name: "n", size: 500, mimeType: "application/octet-stream" };

describe.each(storageKinds)("over $kind", ({ isInSteps, adapt, start }) => {
  test("two that put one file together at once have it both, and neither removes it", async () => {
    let begun = 0;
    let goOn = (): void => {};
    const both = new Promise<void>((resolve) => void (goOn = resolve));
    const scan = async (): Promise<"clean"> => {
      // in steps one of them makes the object, and the other finds it made
      if (++begun === 2 || isInSteps) goOn();
      await both;
      return "clean";
    };
    let backend: StorageBackend | undefined;
    const server = await start({
      uploads: { scan },
      wrap: (given) => (backend = adapt(given)),
    });
    const { url, uploadId } = await server.slot();
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    const answer = await fetch(url, { method: "POST", headers, body: noise(500) });
    const fileId = answer.headers.get("location")!.split("/").at(-1)!;
    const partials = partialFilesOf(server, backend!, scan);
    const tokens = new SlotTokens(server.sluice.host, { maxBytes: 2 ** 30 });
    const slot = tokens.openSealed(url.split("/").at(-1)!, Date.now());
    const { signal } = new AbortController();
    // both believe that they have the file
    const lease = { ensureOurs() {} };
    const assemble = async (): Promise<unknown> => {
      const found = await partials.open({ slot, fileId, lease }, signal);
      if (!("file" in found)) throw new Error("it is whole already");
      const { file, listing = await partials.list(slot, signal) } = found;
      return partials.finish(slot, file, { listing, signal });
    };
    const ended = await Promise.allSettled([assemble(), assemble()]);
    expect(ended.map(({ status }) => status)).toContain("fulfilled");
    const [file] = await server.uploads.confirm(alice, uploadId, [claim]);
    expect((await file!.open()).info.size).toBe(500);
  });

  test("a file that was confirmed before its sender heard of it is not taken back", async () => {
    let onRecord = async (): Promise<void> => {};
    const wrap = (backend: StorageBackend): StorageBackend => ({
      ...backend,
      async write(key, options) {
        const writer = await backend.write!(key, options);
        if (!key.includes("/file-")) return writer;
        return {
          ...writer,
          write: (chunk) => writer.write(chunk),
          abort: () => writer.abort(),
          async commit() {
            const info = await writer.commit();
            await onRecord();
            return info;
          },
        };
      },
    });
    const server = await start({ wrap });
    const put = (url: string): Promise<Response> =>
      fetch(url, { method: "PUT", headers: bearer("alice"), body: noise(500) });
    const first = await server.slot();
    onRecord = async () => {
      onRecord = async () => {};
      await server.uploads.confirm(alice, first.uploadId, [claim]);
    };
    expect((await put(first.url)).status).toBe(201);
    const [file] = await server.uploads.reopen(alice, first.uploadId);
    expect((await file!.open()).info.size).toBe(500);
  });
});
