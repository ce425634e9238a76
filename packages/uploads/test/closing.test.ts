import { request as httpRequest } from "node:http";
import type { StorageBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { bearer, startUploadServer, storageKinds } from "./upload-server.ts";

test("nothing is in progress after close, and nothing is left of earlier work", async () => {
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
  const sending = httpRequest((await server.slot()).url, { method: "PUT", headers });
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

test.each(storageKinds)(
  "until the deadline, what is sent at once may end; what is sent in steps ends with what came of it kept, over $kind",
  async ({ start }) => {
    const server = await start();
    const stepSlot = await server.slot();
    const begun = await fetch(stepSlot.url, {
      method: "POST",
      headers: { ...bearer("alice"), "upload-complete": "?0", "upload-length": "1000" },
    });
    const location = begun.headers.get("location")!;
    const send = (url: string, method: string, headers: Record<string, string>) => {
      const sending = httpRequest(url, {
        method,
        headers: { ...bearer("alice"), "content-length": "1000", ...headers },
      });
      const answered = new Promise<number | undefined>((resolve) =>
        sending.on("error", () => {}).on("response", ({ statusCode }) => resolve(statusCode)),
      );
      sending.write("x".repeat(300));
      return { sending, answered };
    };
    const step = send(location, "PATCH", {
      "content-type": "application/partial-upload",
      "upload-offset": "0",
      "upload-complete": "?1",
    });
    const slot = await server.slot();
    const whole = send(slot.url, "PUT", {});
    await expect.poll(() => server.uploads.progress(slot.uploadId).bytes).toBe(300);
    await expect.poll(() => server.uploads.progress(stepSlot.uploadId).bytes).toBe(300);
    await expect.poll(async () => (await server.files()).length).toBeGreaterThan(1);

    const closed = server.uploads.close({ deadlineMs: 30_000 });
    expect(await step.answered).toBe(503);
    const kept = await fetch(location, { method: "HEAD", headers: bearer("alice") });
    expect(kept.headers.get("upload-offset")).toBe("300");
    whole.sending.end("y".repeat(700));
    expect(await whole.answered).toBe(201);
    await closed;
    expect(server.errors).toEqual([]);
    step.sending.destroy();
  },
);
