import { wrapBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { bearer, noise, startUploadServer } from "./upload-server.ts";

test(
  "a step that storage is stuck with keeps its file from no other request",
  { tags: "slow" },
  async () => {
    let isStuck = false;
    const { slot } = await startUploadServer({
      wrap: (backend) =>
        wrapBackend(backend, {
          writeInSteps: (writeInSteps) => async (key, options) => {
            const writer = await writeInSteps(key, options);
            const suspend = isStuck ? () => new Promise<never>(() => {}) : () => writer.suspend();
            return { ...writer, suspend };
          },
        }),
    });
    const { url } = await slot();
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    const begun = await fetch(url, { method: "POST", headers });
    const location = begun.headers.get("location")!;
    const step = { ...headers, "content-type": "application/partial-upload", "upload-offset": "0" };
    isStuck = true;
    const first = fetch(location, { method: "PATCH", headers: step, body: noise(1_000) });
    await expect
      .poll(async () => {
        const overview = await fetch(url, { headers: bearer("alice") });
        return ((await overview.json()) as { received: number }).received;
      })
      .toBe(1_000);
    isStuck = false;
    const asked = await fetch(location, { method: "HEAD", headers: bearer("alice") });
    expect([asked.status, asked.headers.get("upload-offset")]).toEqual([204, "0"]);
    expect((await first).status).toBe(503);
  },
);
