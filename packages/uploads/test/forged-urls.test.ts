import { describe, expect, test } from "vitest";
import { startPageSite } from "./page-site.ts";
import { bearer, startUploadServer } from "./upload-server.ts";

const counted = (records: readonly { readonly count?: number }[]): number =>
  records.reduce((sum, { count = 1 }) => sum + count, 0);

describe("forged slots", () => {
  test("are 429 with Retry-After beyond the limit of an address, and a slot that works still takes files", async () => {
    const { url, slot, records } = await startUploadServer();
    const post = (target: string, user = "alice"): Promise<Response> =>
      fetch(target, { method: "POST", body: "x", headers: bearer(user) });
    for (let n = 0; n < 19; n++)
      expect((await post(`${url}/uploads/forged-${n}`)).status).toBe(404);
    // another principal's counts like an invalid one
    expect((await post((await slot()).url, "bob")).status).toBe(404);
    for (const target of [`${url}/uploads/forged`, (await slot()).url]) {
      const refused = await post(target, "bob");
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([
        429,
        expect.stringMatching(/^[1-5]?\d$|^60$/),
      ]);
      expect(await refused.json()).toMatchObject({ title: "Too Many Requests" });
    }
    for (const accept of ["*/*", "text/html"]) {
      const headers = { ...bearer("alice"), accept };
      const looked = await fetch(`${url}/uploads/forged`, { headers });
      expect([looked.status, looked.headers.has("retry-after")]).toEqual([429, true]);
    }
    expect((await post((await slot()).url)).status).toBe(201);
    expect(records.at(-1)).toMatchObject({ step: "receive", outcome: "complete" });
  });

  test(
    "are a few records and a count; the steps of an upload are a record each",
    { tags: "slow" },
    async () => {
      const records: { readonly count?: number; readonly step?: string }[] = [];
      const { url, slot, sluice } = await startUploadServer({
        sluice: { audit: (record) => void records.push(record) },
      });
      const headers = bearer("alice");
      const sendThree = async (): Promise<void> => {
        await fetch(`${url}/uploads/forged`, { method: "POST", body: "x", headers });
        await fetch(`${url}/uploads/forged/x`, { method: "DELETE", headers });
        await fetch((await slot()).url, { method: "POST", body: "x", headers });
      };
      await Promise.all(Array.from({ length: 30 }, sendThree));
      expect(records.filter(({ count }) => count === undefined)).toHaveLength(70);
      await sluice.close();
      expect(records.filter(({ count }) => count !== undefined)).toMatchObject([
        { step: "receive", reason: "not_found", count: 25 },
        { step: "discard", reason: "not_found", count: 25 },
      ]);
      expect(counted(records)).toBe(120);
    },
  );

  test("leave no record under the owner's name if they are another principal's", async () => {
    const { slot, records } = await startUploadServer();
    await fetch((await slot()).url, { method: "POST", body: "x", headers: bearer("bob") });
    const [issued, refused] = records;
    expect(issued!.principal).toBeDefined();
    expect(refused).toMatchObject({ outcome: "denied", grant: issued!.grant });
    expect(refused!.principal).toBeUndefined();
  });
});

test("forged upload pages are 429 beyond the limit, and a page that works is shown", async () => {
  await using site = await startPageSite();
  const { url } = await site.ask({ photo: { type: "file" } });
  const forged = url.replace(/[^/]+$/, "forged");
  for (let n = 0; n < 20; n++) expect((await fetch(forged)).status).toBe(404);
  const refused = await fetch(forged);
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(await refused.text()).toContain("Too many tries");
  const answered = await fetch(forged, {
    method: "POST",
    body: '{"action":"decline"}',
    headers: { "content-type": "application/json", "sec-fetch-site": "same-origin" },
  });
  expect([answered.status, answered.headers.has("retry-after")]).toEqual([429, true]);
  expect((await fetch(url)).status).toBe(200);
});

test("forged upload pages count whatever the method", async () => {
  await using site = await startPageSite();
  const { url } = await site.ask({ photo: { type: "file" } });
  const forged = url.replace(/[^/]+$/, "forged");
  const put = async (target: string): Promise<number> =>
    (await fetch(target, { method: "PUT", body: "x" })).status;
  for (let n = 0; n < 20; n++) expect(await put(forged)).toBe(404);
  expect(await put(forged)).toBe(429);
  expect((await fetch(forged)).status).toBe(429);
  expect(await put(url)).toBe(405);
});
