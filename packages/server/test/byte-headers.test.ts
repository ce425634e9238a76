import * as fc from "fast-check";
import type { Reply } from "@sluice/server/internal";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { createHouse } from "./redeeming.ts";

const runs = process.env["SLUICE_DEEP"] ? 100_000 : 50;
const mediaType = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+(?:; charset=[\w.:+-]+)?$/;

test(
  "no name, type or coding of an object breaks out of its header",
  { tags: "slow" },
  async () => {
    const storage = createMemoryBackend();
    const house = createHouse({
      storage,
      limits: { streams: { perProcess: 1_000_000 } },
      exactTypes: true,
    });
    const text = fc.string({ unit: "binary", minLength: 1, maxLength: 40 });
    const nasty = fc.oneof(
      text,
      text.map((name) => `a\r\nset-cookie: x=${name}`),
      text.map((name) => `"; ${name}`),
    );
    let served = 0;
    await fc.assert(
      fc.asyncProperty(nasty, nasty, text, async (name, contentType, contentEncoding) => {
        try {
          storage.put(name, "x", { contentType, contentEncoding });
        } catch {
          return; // no legal key
        }
        const { token } = house.seal("download", { key: name });
        const { status, headers } = await house.redeem(token, { method: "HEAD" });
        await storage.remove(name);
        served += 1;
        expect(status).toBe(200);
        expect(headers.every((part) => /^[\x20-\x7e]+$/.test(part))).toBe(true);
        const fields = new Headers(pairs(headers));
        expect([...fields].length).toBe(headers.length / 2);
        expect(fields.get("content-type")).toMatch(mediaType);
        expect(fields.get("content-disposition")).toMatch(
          /^attachment; filename="[^"\\]+"(?:; filename\*=UTF-8''[\w!#$&+.^`|~%-]+)?$/,
        );
        expect(fields.get("set-cookie")).toBeNull();
      }),
      { numRuns: runs },
    );
    expect(served).toBeGreaterThan(runs / 5);
  },
);

function pairs(headers: readonly string[]): [string, string][] {
  return Array.from({ length: headers.length / 2 }, (_, at) => [
    headers[2 * at]!,
    headers[2 * at + 1]!,
  ]);
}

test.each([
  [new Date(1e12), "Sun, 09 Sep 2001 01:46:40 GMT"],
  [new Date(0), null],
  [new Date(Number.NaN), null],
  [new Date(-1), null],
  [undefined, null],
])("Last-Modified is what storage knows: %s", async (lastModified, expected) => {
  const memory = createMemoryBackend({ "a.bin": "x" });
  const { headers } = await headOf({
    ...memory,
    async describe(key, options) {
      const { lastModified: _own, ...info } = await memory.describe(key, options);
      return { ...info, ...(lastModified && { lastModified }) };
    },
  });
  expect(new Headers(pairs(headers)).get("last-modified")).toBe(expected);
});

test("Last-Modified is never later than the answer", async () => {
  const memory = createMemoryBackend({ "a.bin": "x" });
  const { headers } = await headOf({
    ...memory,
    describe: async (key, options) => ({
      ...(await memory.describe(key, options)),
      lastModified: new Date(Date.now() + 3_600_000),
    }),
  });
  const said = Date.parse(new Headers(pairs(headers)).get("last-modified")!);
  expect(said).toBeLessThanOrEqual(Date.now());
  expect(said).toBeGreaterThan(Date.now() - 60_000);
});

function headOf(storage: StorageBackend): Promise<Reply> {
  const house = createHouse({ storage });
  return house.redeem(house.seal("download", { key: "a.bin" }).token, { method: "HEAD" });
}
