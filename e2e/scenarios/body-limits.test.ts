import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import { sendFiles } from "../../packages/client/src/upload/send/send-files.ts";
import { sendTimeouts, type Sender } from "../../packages/client/src/upload/send/sender.ts";
import { acceptTarget, ClientSession } from "../../packages/client/src/upload/upload-target.ts";
import { bytesSource, senders } from "../../packages/client/test/sending.ts";
import { chooseGenerated, generate } from "../../packages/uploads/test/in-page.mjs";
import { startPageSite, type PageSite } from "../../packages/uploads/test/page-site.ts";
import {
  alice,
  startUploadServer,
  type UploadServer,
  type UploadServerOptions,
} from "../../packages/uploads/test/upload-server.ts";
import { bodyRefusals, startBodyLimit } from "../bed/body-limit.ts";
import { hasBrowser, startBrowser } from "../bed/browser.ts";
import { hasNginx, startNginx } from "../bed/nginx.ts";

const MiB = 2 ** 20;
const big = randomBytes(5 * MiB + 17);
const { signal } = new AbortController();

/** An upload endpoint that is reached at `origin`, with the bodies that it gets of requests that send. */
async function startBehind(origin: string, uploads: UploadServerOptions["uploads"] = {}) {
  const server = await startUploadServer({ uploads, sluice: { endpoint: `${origin}/mcp` } });
  const bodies: number[] = [];
  server.server.on("request", ({ method, headers }) => {
    if (method === "PATCH" || method === "POST") bodies.push(Number(headers["content-length"]));
  });
  return { ...server, bodies };
}

/** Sends a file to a slot of Alice's, and gives what the server then has. */
async function send(
  { sluice, uploads, slot: reserve }: UploadServer,
  bytes: Buffer,
  sender: Sender,
): Promise<Buffer> {
  const slot = await reserve();
  const session = new ClientSession(new URL(sluice.host.endpoint.url), "alice");
  const trust = { session, trustedOrigins: [] };
  const { url, method, uploadId } = slot;
  const claim = { url, method, wire: "resumable", auth: "bound", sessionBound: false } as const;
  const target = acceptTarget(claim, trust);
  const sources = [bytesSource(bytes)];
  const timeouts = { ...sendTimeouts, pauseScale: 0.001 };
  const sent = await sendFiles(
    { sources, target, signal, onSent() {} },
    { sender, trust, timeouts },
  );
  const [file] = await uploads.confirm(alice, uploadId, sent);
  return buffer((await file!.open()).body);
}

const portOf = ({ server }: UploadServer): number => (server.address() as AddressInfo).port;

describe.each(Object.entries(senders))("over %s", (name, sender) => {
  // `fetch` may lose the response of a peer that closes while it writes
  const refusals = Object.entries(bodyRefusals).filter(
    ([how]) => name !== "fetch" || !how.startsWith("closes"),
  );
  test.each(refusals)(
    "a file gets through a proxy that takes 1 MiB and %s",
    async (_how, refuse) => {
      let behind: UploadServer | undefined;
      const target = (): number => portOf(behind!);
      const proxy = await startBodyLimit(target, { maxBytes: MiB, refuse });
      onTestFinished(() => proxy.close());
      behind = await startBehind(proxy.origin);
      expect((await send(behind, big, sender)).equals(big)).toBe(true);
      expect(Math.max(...proxy.passed)).toBe(MiB);
      expect(proxy.refused.length).toBeLessThan(4);
    },
  );

  test.each([
    ["one that is sent at once", 1_000_000],
    ["one that goes in steps", 3 * MiB],
  ])("a limit of 100 kB lets a file through: %s", async (_way, size) => {
    let behind: UploadServer | undefined;
    const target = (): number => portOf(behind!);
    const refuse = bodyRefusals["reads the rest"]!;
    const proxy = await startBodyLimit(target, { maxBytes: 100_000, refuse });
    onTestFinished(() => proxy.close());
    behind = await startBehind(proxy.origin);
    const bytes = big.subarray(0, size);
    expect((await send(behind, bytes, sender)).equals(bytes)).toBe(true);
    expect(Math.max(...proxy.passed)).toBe(65_536);
  });

  test("a limit below 64 KiB ends it: the steps get no smaller", async () => {
    let behind: UploadServer | undefined;
    const target = (): number => portOf(behind!);
    const refuse = bodyRefusals["reads the rest"]!;
    const proxy = await startBodyLimit(target, { maxBytes: 50_000, refuse });
    onTestFinished(() => proxy.close());
    behind = await startBehind(proxy.origin);
    await expect(send(behind, big, sender)).rejects.toMatchObject({ code: "too_large" });
    expect(Math.min(...proxy.refused)).toBe(65_536);
    expect(proxy.refused.length).toBeLessThan(7);
    expect(await behind.files()).toEqual([]);
  });

  test("an endpoint that tells its steps has none refused", async () => {
    let behind: UploadServer | undefined;
    const target = (): number => portOf(behind!);
    const refuse = bodyRefusals["reads the rest"]!;
    const proxy = await startBodyLimit(target, { maxBytes: MiB, refuse });
    onTestFinished(() => proxy.close());
    behind = await startBehind(proxy.origin, { maxStepBytes: MiB });
    expect((await send(behind, big, sender)).equals(big)).toBe(true);
    expect(proxy.refused).toEqual([]);
  });
});

const nginxWays = [
  ["reads a body before it passes it on", ""],
  ["passes a body on as it comes", "proxy_request_buffering off;"],
] as const;

/** Starts nginx with its own limit of bodies, in front of what `target` gives once it is known. */
async function startLimitedNginx(way: string, target: () => number) {
  // nginx needs the port of what is behind it, which needs the address of nginx
  const relay = await startBodyLimit(target, { maxBytes: Infinity, refuse: () => {} });
  onTestFinished(() => relay.close());
  const nginx = await startNginx(
    (port) => `server { listen 127.0.0.1:${port}; client_max_body_size 1m; location / {
      proxy_pass ${relay.origin}; proxy_http_version 1.1; ${way}
      proxy_set_header Host $http_host; proxy_set_header Connection ""; } }`,
  );
  onTestFinished(() => nginx.close());
  return { origin: nginx.origin, passed: relay.passed };
}

describe.skipIf(!hasNginx)("nginx with client_max_body_size 1m", () => {
  for (const [how, way] of nginxWays)
    for (const [name, sender] of Object.entries(senders))
      test(`lets a file through if it ${how}, over ${name}`, async () => {
        let behind: UploadServer | undefined;
        const { origin, passed } = await startLimitedNginx(way, () => portOf(behind!));
        behind = await startBehind(origin);
        expect((await send(behind, big, sender)).equals(big)).toBe(true);
        expect(Math.max(...passed)).toBe(MiB);
      });

  test.skipIf(!hasBrowser)(
    "lets a file of an upload page through, in a browser",
    { tags: "slow", timeout: 120_000 },
    async () => {
      let site: PageSite | undefined;
      const target = (): number => Number(new URL(site!.origin).port);
      const { origin, passed } = await startLimitedNginx("", target);
      await using started = await startPageSite({ sluice: { endpoint: `${origin}/mcp` } });
      site = started;
      const asked = await site.ask({ file: { type: "file", title: "Film" } });
      const browser = await startBrowser();
      onTestFinished(() => browser.close());
      const page = await browser.newPage();
      await page.addInitScript(`globalThis.generate = ${generate.toString()}`);
      await page.goto(asked.url);
      const size = 6 * MiB;
      const picker = page.getByRole("button", { name: "for Film" });
      await picker.evaluate(chooseGenerated, { name: "film.bin", size });
      const row = page.getByRole("listitem").filter({ hasText: "film.bin" });
      await row.locator(".meta", { hasText: /sent/ }).waitFor({ timeout: 60_000 });
      const [file] = await site.uploads.received(asked.owner, asked.slots.get("file")!.uploadId);
      expect(file).toMatchObject({ size });
      expect(Math.max(...passed)).toBe(MiB);
    },
  );
});
