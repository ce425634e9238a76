import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EXTENSION_ID } from "@sluice/core/internal";
import { createMemoryBackend, wrapBackend, type StorageBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bodyOf, createHouse, headerOf } from "../../packages/server/test/redeeming.ts";
import { talkTo } from "../../packages/server/test/talking.ts";

/** Longer than by default, so that a busy machine asks within it. */
const racyMs = 1_000;
let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-versions-"));
});
afterAll(() => rm(root, { recursive: true }));

function serving(storage: StorageBackend) {
  const house = createHouse({
    storage,
    principal: () => ({ issuer: "i", subject: "s", clientId: "c" }),
  });
  const talk = talkTo(house.sluice);
  return {
    stream: async (name: string) => {
      const params = { uri: `files://demo/${name}` };
      const { message } = await talk("modern", "resources/stream", { params, hasSlot: false });
      return message.result;
    },
    read: async (name: string, asked: object) => {
      const params = { uri: `files://demo/${name}`, _meta: { [EXTENSION_ID]: asked } };
      const { message } = await talk("modern", "resources/read", { params });
      return message.result.contents[0];
    },
    get: (url: string, headers: Record<string, string> = {}) =>
      house.redeem(url.split("/").at(-1)!, { headers }),
  };
}

test(
  "a file that a tool has just written is linked by a URL of one version",
  { tags: "slow" },
  async () => {
    const { stream, get } = serving(createFsBackend({ root, racyMs }));
    await writeFile(join(root, "report.txt"), "first version");
    const { downloadUrl, _meta } = await stream("report.txt");
    expect(_meta[EXTENSION_ID].etag).toBeDefined();
    const part = await get(downloadUrl, { range: "bytes=0-4" });
    expect([part.status, await bodyOf(part)]).toEqual([206, "first"]);
    await writeFile(join(root, "report.txt"), "other version");
    for (const headers of [{ range: "bytes=5-" }, {}] as Record<string, string>[])
      expect((await get(downloadUrl, headers)).status).toBe(410);
  },
);

test(
  "the parts of a file that was just written are read from one version",
  { tags: "slow" },
  async () => {
    const { read } = serving(createFsBackend({ root, racyMs }));
    await writeFile(join(root, "parts.txt"), "eins\nzwei\n");
    for (const range of ["lines 1-1", "bytes 0-4"]) {
      const { _meta, text } = await read("parts.txt", { range });
      expect([text, _meta[EXTENSION_ID].etag]).toEqual(["eins\n", expect.any(String)]);
    }
  },
);

test("a URL for what storage names no version of gives all of it, never a part", async () => {
  const memory = createMemoryBackend({ "a.txt": "first version" });
  let isNamed = false;
  const without = <Info extends object>(info: Info & { etag?: string }): Info => {
    const { etag: _etag, ...rest } = info;
    return isNamed ? info : (rest as Info);
  };
  const storage = wrapBackend(memory, {
    describe: (describe) => async (key, options) => without(await describe(key, options)),
    open: (open) => async (key, options) => {
      const { info, range, body } = await open(key, options);
      return { info: without(info), ...(range && { range }), body };
    },
  });
  const { stream, get } = serving(storage);
  const { downloadUrl } = await stream("a.txt");
  const ranged = { range: "bytes=0-4" };
  const first = await get(downloadUrl, ranged);
  expect([first.status, headerOf(first, "accept-ranges")]).toEqual([200, "none"]);
  expect(await bodyOf(first)).toBe("first version");
  // the version has a name by now, and it is another one
  isNamed = true;
  memory.put("a.txt", "other version");
  const second = await get(downloadUrl, ranged);
  expect([second.status, await bodyOf(second)]).toEqual([200, "other version"]);
});
