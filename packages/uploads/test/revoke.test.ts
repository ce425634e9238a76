import { randomUUID } from "node:crypto";
import { SluiceError } from "@sluice/core";
import { wrapBackend, type StorageBackend } from "@sluice/storage";
import { expect, test, vi } from "vitest";
import type { Fields } from "../src/elicitation/fields.ts";
import { connectAnswerer, createToolServer, eras, type Asked } from "./asking.ts";
import { alice, bearer, noise, startUploadServer, type UploadServer } from "./upload-server.ts";

const fields = {
  first: { type: "file" },
  second: { type: "file", required: false },
} as const satisfies Fields;

/** A tool over a real endpoint that asks for two files. */
async function startAsking() {
  const server = await startUploadServer();
  const fetch = createToolServer(server.sluice, async (mcp, ctx) => {
    const outcome = await server.uploads.ask({ message: "Files?", fields }, { mcp, ctx });
    if (outcome.action === "ask") return outcome.result;
    return { content: [{ type: "text", text: outcome.action }] };
  });
  return { server, fetch };
}

const put = (url: string, headers: Record<string, string> = bearer("alice")): Promise<Response> =>
  fetch(url, { method: "PUT", headers, body: noise(2_000) });

async function expectClosed(
  server: UploadServer,
  urls: readonly string[],
  headers?: Record<string, string>,
): Promise<void> {
  for (const url of urls) {
    const answer = await put(url, headers);
    expect(answer.status).toBe(409);
    expect(await answer.json()).toMatchObject({ detail: expect.stringMatching(/ended/) as string });
    const begun = await put(url, { ...(headers ?? bearer("alice")), "upload-complete": "?0" });
    expect(begun.status).toBe(409);
    const overview = await fetch(url, { headers: headers ?? bearer("alice") });
    expect(await overview.json()).toMatchObject({ status: "closed", files: [] });
  }
  // a marker for each slot, which the sweeper takes; the page's request may still remove what came
  await expect
    .poll(async () => (await server.files()).map((path) => path.slice(path.lastIndexOf("/") + 1)))
    .toEqual(urls.map(() => "confirmed"));
}

const urlsOf = (asked: Asked): string[] =>
  Object.values(asked.uploadEndpoints ?? {}).map(({ url }) => url);

test.each(eras.flatMap((era) => ["decline", "cancel"].map((action) => ({ era, action }))))(
  "$era: the URLs of a question that ends with $action take nothing more",
  async ({ era, action }) => {
    const { server, fetch: toolFetch } = await startAsking();
    let urls: string[] = [];
    const client = await connectAnswerer({
      era,
      fetch: toolFetch,
      token: "alice",
      async answer(asked) {
        urls = urlsOf(asked);
        expect((await put(urls[0]!)).status).toBe(201);
        return { action };
      },
    });
    const { content } = await client.callTool({ name: "look", arguments: {} });
    expect(content).toMatchObject([{ text: action }]);
    expect(urls).toHaveLength(2);
    await expectClosed(server, urls);
  },
);

test.each(eras)(
  "%s: the URL of a field that an accepted answer leaves out takes nothing more",
  async (era) => {
    const { fetch: toolFetch } = await startAsking();
    let urls: string[] = [];
    const client = await connectAnswerer({
      era,
      fetch: toolFetch,
      token: "alice",
      async answer(asked) {
        urls = urlsOf(asked);
        const stored = (await (await put(urls[0]!)).json()) as Record<string, unknown>;
        const { uploadId, size, mimeType } = stored;
        const first = { name: "a", uploadId, size, mimeType };
        return { action: "accept", content: { first } };
      },
    });
    await client.callTool({ name: "look", arguments: {} });
    expect((await put(urls[1]!)).status).toBe(409);
  },
);

test.each(eras)(
  "%s: the URLs of a page take nothing more when the user declines on it",
  async (era) => {
    const { server, fetch: toolFetch } = await startAsking();
    let urls: string[] = [];
    const self = { "sec-fetch-site": "same-origin" };
    const client = await connectAnswerer({
      era,
      fetch: toolFetch,
      token: "alice",
      capabilities: { elicitation: { url: {} } },
      async answer({ url = "" }) {
        const html = await (await fetch(url)).text();
        urls = [...new Set(html.match(/https?:\/\/[^"'&<]+\/u\/[\w-]{32}/g))];
        expect((await put(urls[0]!, self)).status).toBe(201);
        const declined = await fetch(url, {
          method: "POST",
          headers: { ...self, "content-type": "application/json" },
          body: JSON.stringify({ answerId: randomUUID(), action: "decline" }),
        });
        expect(declined.status).toBe(204);
        // at once: the client may never call again
        expect((await put(urls[1]!, self)).status).toBe(409);
        return { action: "accept" };
      },
    });
    const { content } = await client.callTool({ name: "look", arguments: {} });
    expect(content).toMatchObject([{ text: "decline" }]);
    expect(urls).toHaveLength(2);
    await expectClosed(server, urls, self);
  },
);

test.each(eras)("%s: a page that is not opened has URLs that take nothing", async (era) => {
  const { fetch: toolFetch } = await startAsking();
  let urls: string[] = [];
  const client = await connectAnswerer({
    era,
    fetch: toolFetch,
    token: "alice",
    capabilities: { elicitation: { url: {} } },
    async answer({ url = "" }) {
      const html = await (await fetch(url)).text();
      urls = [...new Set(html.match(/https?:\/\/[^"'&<]+\/u\/[\w-]{32}/g))];
      return { action: "decline" };
    },
  });
  await client.callTool({ name: "look", arguments: {} });
  expect(urls).toHaveLength(2);
  for (const url of urls)
    expect((await put(url, { "sec-fetch-site": "same-origin" })).status).toBe(409);
});

test("a body that is under way when its slot is closed is refused, and nothing of it is kept", async () => {
  const server = await startUploadServer();
  const slot = await server.slot();
  let end!: () => void;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(noise(5_000));
      end = () => {
        controller.enqueue(noise(5_000));
        controller.close();
      };
    },
  });
  const init = { method: "PUT", headers: bearer("alice"), body, duplex: "half" } as RequestInit;
  const answer = fetch(slot.url, init);
  await expect.poll(() => server.uploads.progress(slot.uploadId).bytes).toBeGreaterThan(0);
  await server.uploads.revoke(alice, slot);
  end();
  const refusal = await answer;
  expect(refusal.status).toBe(409);
  expect(await refusal.json()).toMatchObject({
    detail: "this upload has ended and takes no more files",
  });
  const claim = { name: "a", size: 10_000, mimeType: "application/octet-stream" };
  await expect(server.uploads.confirm(alice, slot.uploadId, [claim])).rejects.toThrow(
    /was confirmed or closed before/,
  );
  expect(await server.files()).toEqual([expect.stringMatching(/\/confirmed$/)]);
});

test("a file in steps is gone when its slot is closed, and nothing is added to it", async () => {
  const server = await startUploadServer();
  const slot = await server.slot();
  const begun = await put(slot.url, { ...bearer("alice"), "upload-complete": "?0" });
  await server.uploads.revoke(alice, slot);
  const step = await fetch(begun.headers.get("location")!, {
    method: "PATCH",
    headers: {
      ...bearer("alice"),
      "content-type": "application/partial-upload",
      "upload-offset": "2000",
      "upload-complete": "?1",
    },
    body: noise(10),
  });
  expect(step.status).toBe(404);
  expect(await server.files()).toHaveLength(1);
});

test("a slot is closed as soon as it is revoked, also while its files still go", async () => {
  let goOn!: () => void;
  const mayGo = new Promise<void>((resolve) => void (goOn = resolve));
  const server = await startUploadServer({
    wrap: (backend: StorageBackend) =>
      wrapBackend(backend, {
        remove: (remove) => async (key, options) => {
          if (key.endsWith("/file-000")) await mayGo;
          return remove(key, options);
        },
      }),
  });
  const slot = await server.slot();
  expect((await put(slot.url)).status).toBe(201);
  const revoked = server.uploads.revoke(alice, slot);
  await expect
    .poll(async () => (await server.files()).some((path) => path.endsWith("/confirmed")))
    .toBe(true);
  const refusal = await put(slot.url);
  const overview = await fetch(slot.url, { headers: bearer("alice") });
  goOn();
  await revoked;
  expect(await refusal.json()).toMatchObject({
    detail: "this upload has ended and takes no more files",
  });
  expect(await overview.json()).toMatchObject({ status: "closed", files: [] });
  await expectClosed(server, [slot.url]);
});

test("closing a slot twice is the same, and leaves confirmed files", async () => {
  const server = await startUploadServer();
  const slot = await server.slot();
  expect((await put(slot.url)).status).toBe(201);
  const claim = { name: "a", size: 2_000, mimeType: "application/octet-stream" };
  const [file] = await server.uploads.confirm(alice, slot.uploadId, [claim]);
  await server.uploads.revoke(alice, slot);
  await server.uploads.revoke(alice, slot);
  expect((await file!.open()).info.size).toBe(2_000);
  const other = await server.slot();
  await server.uploads.revoke(alice, other);
  await server.uploads.revoke(alice, other);
  expect((await put(other.url)).status).toBe(409);
});

test("received bytes are removed even if storage cannot close the slot", async () => {
  const fault = new SluiceError("no_space", "stub: write: full");
  const refuseMarker = (backend: StorageBackend): StorageBackend => ({
    ...backend,
    write: (key, options) =>
      key.endsWith("/confirmed") ? Promise.reject(fault) : backend.write!(key, options),
  });
  const server = await startUploadServer({ wrap: refuseMarker });
  const slot = await server.slot();
  expect((await put(slot.url)).status).toBe(201);
  await expect(server.uploads.revoke(alice, slot)).rejects.toThrow(fault);
  expect(await server.files()).toEqual([]);
});

test("the marker of a closed slot goes five minutes after the end of the slot", async () => {
  const server = await startUploadServer();
  const slot = await server.slot();
  await server.uploads.revoke(alice, slot);
  await server.uploads.sweep();
  expect(await server.files()).toHaveLength(1);
  vi.spyOn(Date, "now").mockReturnValue(slot.expiresAt + 301_000);
  await server.uploads.sweep().finally(() => vi.restoreAllMocks());
  expect(await server.files()).toEqual([]);
});
