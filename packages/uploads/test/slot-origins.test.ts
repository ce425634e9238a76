import { SluiceError } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { expect, test } from "vitest";
import { alice, bearer, noise, startUploadServer } from "./upload-server.ts";

const terms = { accept: [], maxBytes: 1_000_000, maxFiles: 1 };
const origins = ["null", "https://0123.claudemcpcontent.com", "https://evil.example"];

const corsOf = ({ headers }: Response) => [
  headers.get("access-control-allow-origin"),
  headers.get("access-control-allow-credentials"),
];

test.each([{ links: { tokens: "stored" } }, { links: { tokens: "sealed" } }] as const)(
  "a page of any origin may use a slot whose URL is the permission, without credentials: %j",
  async (sluice) => {
    const server = await startUploadServer({ sluice });
    for (const origin of origins) {
      const { url } = await server.uploads.reserve(alice, terms, { selfAuthenticating: true });
      const preflight = await fetch(url, {
        method: "OPTIONS",
        headers: { origin, "access-control-request-method": "PUT" },
      });
      expect([preflight.status, ...corsOf(preflight)]).toEqual([204, "*", null]);
      expect(preflight.headers.get("access-control-allow-methods")).toContain("PUT");
      const sent = await fetch(url, {
        method: "PUT",
        headers: { origin, "sec-fetch-site": "cross-site" },
        body: noise(10),
      });
      expect([sent.status, ...corsOf(sent)]).toEqual([201, "*", null]);
    }
  },
);

test("a page of a foreign origin may not use a bound slot, nor a wrong host any", async () => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  for (const origin of origins) {
    const headers = { ...bearer("alice"), origin };
    const refused = await fetch(url, { method: "PUT", headers, body: noise(10) });
    expect([refused.status, ...corsOf(refused)]).toEqual([403, null, null]);
  }
  const own = { ...bearer("alice"), origin: new URL(url).origin };
  expect((await fetch(url, { method: "PUT", headers: own, body: noise(10) })).status).toBe(201);
});

test("a foreign page that gets the URL of a slot gets no upload page with it", async () => {
  const server = await startUploadServer();
  const { url } = await server.uploads.reserve(alice, terms, { selfAuthenticating: true });
  const headers = { accept: "text/html", origin: "https://evil.example" };
  const page = await fetch(url, { headers });
  expect([page.status, page.headers.get("access-control-allow-origin")]).toEqual([403, null]);
});

test("a short slot is 503 while the store is down, and says to try again", async () => {
  const inner = createMemoryStateStore();
  let isDown = false;
  const get: typeof inner.get = async (...args) => {
    if (isDown) throw new SluiceError("unavailable", "redis at 10.0.0.1 is down");
    return inner.get(...args);
  };
  const server = await startUploadServer({
    sluice: { stores: { ...createMemoryStores(), state: { ...inner, get } } },
  });
  const { url } = await server.uploads.reserve(alice, terms, { selfAuthenticating: true });
  isDown = true;
  const refused = await fetch(url, { method: "PUT", body: noise(10) });
  expect(refused.status).toBe(503);
  expect(await refused.text()).not.toContain("10.0.0.1");
  isDown = false;
  expect((await fetch(url, { method: "PUT", body: noise(10) })).status).toBe(201);
});
