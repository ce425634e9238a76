import type { StorageBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { assembleFile } from "../src/receive/assemble-file.ts";
import { alice, bearer, noise, startUploadServer } from "./upload-server.ts";

const claim = { name: "n", size: 500, mimeType: "application/octet-stream" };

test("two that put one file together at once have it both, and neither removes it", async () => {
  let begun = 0;
  let goOn = (): void => {};
  const both = new Promise<void>((resolve) => void (goOn = resolve));
  const server = await startUploadServer({
    uploads: {
      async onScan() {
        if (++begun === 2) goOn();
        await both;
        return "clean" as const;
      },
    },
  });
  const { url, uploadId } = server.slot();
  const headers = { ...bearer("alice"), "upload-complete": "?0" };
  const answer = await fetch(url, { method: "POST", headers, body: noise(500) });
  const fileId = answer.headers.get("location")!.split("/").at(-1)!;
  const { parts } = server.uploads;
  const slot = parts.sealer.open(url.split("/").at(-1)!, Date.now());
  const { signal } = new AbortController();
  // both believe that they have the file
  const turn = { ensureOurs() {} };
  await Promise.allSettled([
    assembleFile(parts, slot, { fileId, turn }, signal),
    assembleFile(parts, slot, { fileId, turn }, signal),
  ]);
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
  const server = await startUploadServer({ wrap });
  const put = (url: string): Promise<Response> =>
    fetch(url, { method: "PUT", headers: bearer("alice"), body: noise(500) });
  const first = server.slot();
  onRecord = async () => {
    onRecord = async () => {};
    await server.uploads.confirm(alice, first.uploadId, [claim]);
  };
  expect((await put(first.url)).status).toBe(201);
  const [file] = await server.uploads.reopen(alice, first.uploadId);
  expect((await file!.open()).info.size).toBe(500);
});
