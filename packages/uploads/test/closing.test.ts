import { request as httpRequest } from "node:http";
import type { StorageBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { bearer, startUploadServer } from "./upload-server.ts";

test("whoever closes it finds nothing under way any more, and nothing of what was", async () => {
  const seen: string[] = [];
  const wrap = (backend: StorageBackend): StorageBackend => ({
    ...backend,
    async write(key, options) {
      const writer = await backend.write!(key, options);
      seen.push("opened");
      return {
        ...writer,
        write: (chunk) => writer.write(chunk),
        commit: () => writer.commit(),
        async abort() {
          for (let turn = 0; turn < 5; turn++)
            await new Promise((resolve) => setImmediate(resolve));
          await writer.abort();
          seen.push("removed");
        },
      };
    },
  });
  const server = await startUploadServer({ wrap });
  const headers = { ...bearer("alice"), "content-length": "1000" };
  const sending = httpRequest(server.slot().url, { method: "PUT", headers });
  const answered = new Promise<number | undefined>((resolve) =>
    sending.on("error", () => {}).on("response", ({ statusCode }) => resolve(statusCode)),
  );
  sending.write("abc");
  await expect.poll(() => seen).toEqual(["opened"]);
  await server.uploads.close();
  expect(seen).toEqual(["opened", "removed"]);
  expect(await server.files()).toEqual([]);
  expect(await answered).toBe(503);
  sending.destroy();
});
