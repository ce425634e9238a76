import { expect, test } from "vitest";
import { alice, noise, startUploadServer, type UploadServer } from "./upload-server.ts";

const terms = { accept: ["image/*"], maxBytes: 1_000_000, maxFiles: 1 };
const browser = {
  accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
  // a link on another site
  "sec-fetch-site": "cross-site",
  "sec-fetch-mode": "navigate",
};

function reserve(server: UploadServer) {
  return server.uploads.reserve(alice, terms, { selfAuthenticating: true });
}

/** What a browser gets for a URL. */
async function open(url: string) {
  const answer = await fetch(url, { headers: browser });
  return { url: answer.url, status: answer.status, html: await answer.text(), answer };
}

test("a browser that opens the URL of a slot gets an upload page for this slot", async () => {
  const server = await startUploadServer();
  const { url, uploadId } = await reserve(server);
  const page = await open(url);
  expect(page.status).toBe(200);
  expect(page.answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(page.answer.headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(page.html).toContain(url);
  expect(page.html).toContain("image/*");
  // the same page again
  expect((await open(url)).html).toBe(page.html);
  // so does the URL that a model is given
  expect((await open(`${url}/`)).html).toBe(page.html);
  // programs that do not ask for HTML get what they always got
  for (const accept of ["*/*", "application/json"]) {
    const overview = await fetch(url, { headers: { accept } });
    expect(await overview.json()).toMatchObject({ uploadId, status: "reserved" });
  }
  const redirect = await fetch(url, { headers: browser, redirect: "manual" });
  expect(redirect.status).toBe(303);
  expect(redirect.headers.get("cache-control")).toMatch(/no-store/);
  expect(redirect.headers.get("referrer-policy")).toBe("no-referrer");
});

test("the page says that its files were taken when the slot is confirmed, and that it was closed when it is not", async () => {
  const server = await startUploadServer();
  for (const [end, heading] of [
    ["confirm", "All done"],
    ["revoke", "This request was closed"],
  ] as const) {
    for (const isOpenedBefore of [true, false]) {
      const slot = await server.uploads.reserve(
        alice,
        { ...terms, accept: [] },
        { selfAuthenticating: true },
      );
      if (isOpenedBefore) await open(slot.url);
      await fetch(slot.url, { method: "PUT", body: noise(10) });
      const came = await server.uploads.received(alice, slot.uploadId);
      if (end === "confirm") await server.uploads.confirm(alice, slot.uploadId, came);
      else await server.uploads.revoke(alice, slot);
      expect((await open(slot.url)).html, `${end} ${isOpenedBefore}`).toContain(heading);
    }
  }
});

test("the page of a slot gives an answer that nothing waits for, and the files stay", async () => {
  const server = await startUploadServer();
  const slot = await server.uploads.reserve(
    alice,
    { ...terms, accept: [] },
    { selfAuthenticating: true },
  );
  const page = await open(slot.url);
  expect((await fetch(slot.url, { method: "PUT", body: noise(10) })).status).toBe(201);
  // as the page does
  const overview = (await (await fetch(slot.url)).json()) as {
    readonly files: { readonly name: string; readonly size: number; readonly mimeType: string }[];
  };
  const [{ name, size, mimeType }] = overview.files as [(typeof overview.files)[0]];
  expect(name).toBe("download");
  const { uploadId } = slot;
  const answer = {
    answerId: "a".repeat(22),
    action: "accept",
    content: { file: { name, size, mimeType, uploadId } },
  };
  const headers = { "content-type": "application/json", origin: new URL(server.url).origin };
  const given = await fetch(page.url, { method: "POST", headers, body: JSON.stringify(answer) });
  expect([given.status, await given.text()]).toEqual([204, ""]);
  expect((await open(slot.url)).html).toContain("Almost done");
  const came = await server.uploads.received(alice, uploadId);
  await server.uploads.confirm(alice, uploadId, came);
  expect((await open(slot.url)).html).toContain("All done");
});

test("an unknown URL gets a page in a browser, and a bound slot has none", async () => {
  const server = await startUploadServer();
  const wrong = await open(`${server.url}/u/${"a".repeat(32)}`);
  expect([wrong.status, wrong.html.includes("This link does not work")]).toEqual([404, true]);
  const bound = await open((await server.slot()).url);
  expect([bound.status, bound.html.includes("</html>")]).toEqual([401, false]);
});

test("another site may lead a browser to a slot, and not let it send without saying from where", async () => {
  const server = await startUploadServer();
  const { url } = await reserve(server);
  const headers = { "sec-fetch-site": "cross-site" };
  expect((await fetch(url, { method: "PUT", headers, body: noise(10) })).status).toBe(403);
  expect((await fetch(url, { headers: { ...headers, ...browser } })).status).toBe(200);
});
