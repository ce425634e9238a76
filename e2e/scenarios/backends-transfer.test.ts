// @module-tag slow
import type { DeliveryMode } from "@sluice/core/internal";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startBackendSite, type BackendSite } from "../bed/backend-site.ts";
import { remoteNames, serviceNames } from "../bed/backends.ts";
import { bytesOf } from "../bed/content.ts";
import { holdBody } from "../bed/hold.ts";
import type { Meddler } from "../bed/meddler.ts";
import { createRandom } from "../bed/random.ts";

const size = 3_000_000;
/** What may lie in buffers between the place of the break and the reader. */
const slack = 1_000_000;
const farIn = expect.toSatisfy((start) => start > slack / 2);
const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];

describe.each(serviceNames)("%s", (name) => {
  const random = createRandom(name.length);
  const content = bytesOf(size, name);
  let site: BackendSite;

  beforeAll(async () => {
    site = await startBackendSite(name);
    await site.service.put("disk.img", content);
  });
  afterAll(() => site[Symbol.asyncDispose]());

  /** Downloads while one body is broken at a random place; gives where it was asked to go on. */
  async function downloadBroken(mode: DeliveryMode, broken: Meddler): Promise<number[]> {
    site.mode = mode;
    const offset = random.int(slack + 500_000, size - 300_000);
    const hold = holdBody(broken, size, offset);
    const before = broken.requests.length;
    const saved = await site.download("disk.img", {
      onProgress({ bytes }) {
        if (bytes >= offset - slack) hold.reset();
      },
    });
    expect(saved.equals(content)).toBe(true);
    return broken.requests.slice(before).flatMap(({ headers }) => {
      const range = headers.range ?? headers["x-ms-range"];
      const start = /^bytes=(\d+)-/.exec(String(range))?.[1];
      return start === undefined ? [] : [Number(start)];
    });
  }

  test.each(modes)("bytes arrive equal, %s", async (mode) => {
    site.mode = mode;
    expect((await site.download("disk.img")).equals(content)).toBe(true);
  });

  test.each(modes.filter((mode) => mode === "redirect" || remoteNames.includes(name)))(
    "a reset of the storage in the middle goes unnoticed, %s",
    async (mode) => {
      expect(await downloadBroken(mode, site.service.store)).toEqual([farIn]);
    },
  );

  test.each<DeliveryMode>(["direct", "downloadUrl"])(
    "a reset of the client's line in the middle goes unnoticed, %s",
    async (mode) => {
      const starts = await downloadBroken(mode, site.line);
      expect(starts).toEqual([farIn]);
    },
  );
});
