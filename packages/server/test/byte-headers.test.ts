import * as fc from "fast-check";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { createHouse } from "./redeeming.ts";

const runs = process.env["SLUICE_DEEP"] ? 100_000 : 150;
const mediaType = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+(?:; charset=[\w.:+-]+)?$/;

test("no name, type or coding of an object breaks out of its header", async () => {
  const storage = createMemoryBackend();
  const house = createHouse({ storage, limits: { perProcess: 1_000_000 }, exactTypes: true });
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
      const { token } = house.seal("download", { handle: name });
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
});

function pairs(headers: readonly string[]): [string, string][] {
  return Array.from({ length: headers.length / 2 }, (_, at) => [
    headers[2 * at]!,
    headers[2 * at + 1]!,
  ]);
}
