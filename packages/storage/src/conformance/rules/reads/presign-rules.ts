import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import type { PresignOptions } from "../../../contract/backend.ts";
import type { Equipped } from "../../rule.ts";
import { assertBytes, pattern, text } from "../../expect.ts";
import { Absent, type Rule, rule } from "../../rule.ts";

type Signing = Equipped<"backend.presign">;

const content = pattern(5000);
const minute = 60_000;

/** A URL for the key; absent when the backend rightly cannot make one. */
async function urlFor(
  { backend }: Signing,
  key: string,
  options: Partial<PresignOptions> = {},
): Promise<{ url: string; expiresAt: number }> {
  const presigned = await backend.presign(key, { expiresInMs: minute, ...options });
  if (presigned === undefined) throw new Absent("the backend makes no URL with these options");
  return presigned;
}

function get({ fetch: ownFetch }: Signing, url: string, init?: RequestInit): Promise<Response> {
  return (ownFetch ?? fetch)(url, { redirect: "manual", ...init });
}

async function bytesOf(response: Response): Promise<Uint8Array> {
  return new Uint8Array(await response.arrayBuffer());
}

/** URLs that carry their own permission. */
export const presignRules: readonly Rule[] = [
  rule({
    id: "presign-get",
    sentence: "a GET of the URL gives the bytes without credentials, whatever signs are in the key",
    needs: ["backend.presign"],
    async check(fixture) {
      for (const key of ["get.bin", "get/a b+c%20d.bin", "get/é.bin", "get/a#b?c=d&e.bin"]) {
        if (fixture.traits?.refuses?.(key)) continue;
        await fixture.put(key, content);
        const { url } = await urlFor(fixture, key);
        const response = await get(fixture, url);
        assert.equal(response.status, 200, key);
        assertBytes(await bytesOf(response), content, key);
      }
    },
  }),
  rule({
    id: "presign-range",
    sentence: "a range of the URL is a 206 with the right bytes",
    needs: ["backend.presign"],
    async check(fixture) {
      await fixture.put("range.bin", content);
      const { url } = await urlFor(fixture, "range.bin");
      const response = await get(fixture, url, { headers: { range: "bytes=10-19" } });
      assert.equal(response.status, 206);
      assertBytes(await bytesOf(response), content.subarray(10, 20));
    },
  }),
  rule({
    id: "presign-expiry",
    sentence: "expiresAt is not later than was asked, nor than the signing credentials last",
    needs: ["backend.presign"],
    async check(fixture) {
      await fixture.put("expiry.bin", content);
      const last = fixture.traits?.credentialsExpireAt?.getTime() ?? Infinity;
      for (const expiresInMs of [minute, 60 * minute, 24 * 60 * minute]) {
        const requestedEnd = Date.now() + expiresInMs;
        const { expiresAt } = await urlFor(fixture, "expiry.bin", { expiresInMs });
        assert.equal(typeof expiresAt, "number", "it is not in Unix milliseconds");
        assert.ok(expiresAt > Date.now(), "it has expired already");
        assert.ok(expiresAt <= requestedEnd + 2000, "it expires later than was asked");
        assert.ok(expiresAt <= last, "it expires after the credentials");
      }
    },
  }),
  rule({
    id: "presign-expired",
    sentence: "an expired URL is refused",
    needs: ["backend.presign"],
    async check(fixture) {
      await fixture.put("expired.bin", content);
      const { url, expiresAt } = await urlFor(fixture, "expired.bin", { expiresInMs: 1000 });
      const lifeMs = Math.max(expiresAt - Date.now(), fixture.traits?.urlLifeMs ?? 0);
      const waitMs = lifeMs + 1000;
      if (waitMs > 8000 && fixture.passTime === undefined)
        throw new Absent("the shortest URL lives too long to wait for its end");
      await (fixture.passTime ?? wait)(waitMs);
      const { status } = await get(fixture, url);
      assert.ok(status >= 400, `the answer was ${status}`);
    },
  }),
  rule({
    id: "presign-overrides",
    sentence: "contentType and contentDisposition are honoured, or there is no URL",
    needs: ["backend.presign"],
    async check(fixture) {
      await fixture.put("overrides.bin", content);
      const contentType = "application/x-special";
      const contentDisposition = `attachment; filename="a \\"b\\".bin"; filename*=UTF-8''a%20%E2%82%AC.bin`;
      const { url } = await urlFor(fixture, "overrides.bin", { contentType, contentDisposition });
      const { headers } = await get(fixture, url);
      assert.equal(headers.get("content-type"), contentType);
      assert.equal(headers.get("content-disposition"), contentDisposition);
    },
  }),
  rule({
    id: "presign-bound",
    sentence: "a URL opens no other object and allows no other method",
    needs: ["backend.presign"],
    async check(fixture) {
      const { put, backend } = fixture;
      await put("bound-one.bin", content);
      await put("bound-two.bin", text("the other"));
      const { url } = await urlFor(fixture, "bound-one.bin");
      const other = await get(fixture, url.replaceAll("bound-one", "bound-two"));
      const got = await bytesOf(other);
      assert.notDeepEqual(Buffer.from(got), Buffer.from("the other"), "it opened another object");
      for (const method of ["PUT", "DELETE"]) {
        const { status } = await get(fixture, url, {
          method,
          ...(method === "PUT" && { body: "x" }),
        });
        assert.ok(status >= 400, `${method} was answered with ${status}`);
      }
      await backend.describe("bound-one.bin");
    },
  }),
  rule({
    id: "presign-origins",
    sentence: "every URL is of an origin that presignOrigins names",
    needs: ["backend.presign", "backend.presignOrigins"],
    async check(fixture) {
      const origins = await fixture.backend.presignOrigins();
      for (const origin of origins)
        assert.equal(URL.canParse(origin) && new URL(origin).origin, origin, "not an exact origin");
      for (const key of ["origins.bin", "origins/a b.bin"]) {
        if (fixture.traits?.refuses?.(key)) continue;
        await fixture.put(key, content);
        const { origin } = new URL((await urlFor(fixture, key)).url);
        assert.ok(origins.includes(origin), `${origin} is not among ${origins.join(", ")}`);
      }
    },
  }),
  rule({
    id: "presign-missing",
    sentence: "for a missing object there is not_found, or a URL that is answered with 404",
    needs: ["backend.presign"],
    async check(fixture) {
      let url: string;
      try {
        ({ url } = await urlFor(fixture, "missing.bin"));
      } catch (error) {
        const { code, message } = error as { code?: unknown; message?: string };
        assert.equal(code, "not_found");
        assert.ok(!/[a-z]:\/\//i.test(message ?? ""), "there is a URL in the message");
        return;
      }
      assert.equal((await get(fixture, url)).status, 404);
    },
  }),
  rule({
    id: "presign-opaque",
    sentence: "a URL is the same after parsing, so that no client breaks its signature",
    needs: ["backend.presign"],
    async check(fixture) {
      const usable = ["a b/c+d.bin", "é.bin", "e%2Ff.bin"].filter(
        (key) => !fixture.traits?.refuses?.(key),
      );
      for (const key of ["opaque.bin", ...usable]) {
        await fixture.put(key, content);
        const { url } = await urlFor(fixture, key);
        assert.equal(new URL(url).href, url);
        assertBytes(await bytesOf(await get(fixture, url)), content, key);
      }
    },
  }),
];
