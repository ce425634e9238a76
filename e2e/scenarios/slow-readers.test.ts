// @module-tag slow
// Slow readers over the buffers of the real system, which say nothing of them for as long as they hold megabytes.
import { get as getPlain, createServer, type IncomingMessage } from "node:http";
import { get as getTls } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { generateKey } from "@sluice/core";
import { createSluice, type AuditRecord } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { createSidecar } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { streamResource } from "@sluice/client";
import { expect, onTestFinished, test } from "vitest";
import { createCertificate } from "../bed/certificate.ts";
import { connect } from "../bed/clients.ts";
import { linkTo, startLinkSite } from "../bed/links.ts";
import { listen } from "../bed/listen.ts";
import { adapted, documentedSite, hasNginx, startNginx } from "../bed/nginx.ts";
import { baseUri, type Site, type SiteOptions } from "../bed/site.ts";

/** A minute of a reader passes in `60 / pace` seconds: rates are higher by that, and times shorter. The buffers stay as large. */
const pace = 20;
const seconds = 20;
const node = { idleMs: 45_000 / pace, minBytesPerSecond: 4_096 * pace };
const rates = [6_000, 20_000, 60_000, 100_000, 200_000];

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("skipped: 500 readers for ten minutes (SLUICE_DEEP)");
/** All readers come from one address. */
const wide = { perAddress: 1_000, perProcess: 1_000 };

type Read = (bytes: number) => Promise<boolean>;

/** Opens a download; a read takes so many bytes, and tells whether it goes on. */
async function readUrl(url: string): Promise<Read> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const get = url.startsWith("https:") ? getTls : getPlain;
    get(url, { agent: false, rejectUnauthorized: false } as object, resolve).on("error", reject);
  });
  expect(answer.statusCode).toBe(200);
  onTestFinished(() => void answer.destroy());
  let isCut = false;
  answer.on("error", () => (isCut = true)).on("close", () => (isCut = true));
  answer.on("readable", () => {});
  return async (bytes) => {
    // less than that is there: all of it
    if (bytes > 0 && answer.read(bytes) === null) answer.read();
    return !isCut;
  };
}

async function openSite(options: SiteOptions = {}): Promise<Site> {
  const site = await startLinkSite({
    sparse: { "big.bin": 2 ** 30 },
    node: () => node,
    ...options,
  });
  onTestFinished(() => site[Symbol.asyncDispose]());
  return site;
}

const caller = { header: () => undefined };
const linkOf = async ({ sluice }: Pick<Site, "sluice">): Promise<string> =>
  (await sluice.link(`${baseUri}big.bin`, { caller })).url;

async function behindNginx(): Promise<() => Promise<Read>> {
  const documented = await documentedSite("guides/deploy/nginx.md");
  const site = await openSite({
    front: (target) =>
      startNginx((port) =>
        adapted(documented, {
          "listen 8000;": `listen 127.0.0.1:${port};`,
          "127.0.0.1:8001": `127.0.0.1:${target()}`,
          "server 127.0.0.1:8002 max_fails=0;": "",
          "server 127.0.0.1:8003 max_fails=0;": "",
        }),
      ),
  });
  return async () => readUrl(await linkOf(site));
}

async function fromSidecar(): Promise<() => Promise<Read>> {
  const { root } = await openSite();
  const listening = await listen(createServer((req, res) => handle(req, res)));
  onTestFinished(() => listening.close());
  const sluice = createSluice({
    storage: createFsBackend({ root }),
    baseUri,
    endpoint: `${listening.origin}/bytes`,
    keys: [generateKey()],
    links: {},
  });
  const handle = toNodeHandler(createSidecar(sluice), node);
  return async () => readUrl(await linkOf({ sluice }));
}

async function withClient(): Promise<() => Promise<Read>> {
  const site = await openSite();
  return async () => {
    const client = await connect("SDK v2, modern", site.url);
    onTestFinished(() => client.close());
    const resource = await streamResource(client, `${baseUri}big.bin`);
    const reader = resource.body.getReader();
    let left = 0;
    onTestFinished(() => reader.cancel().catch(() => {}));
    return async (bytes) => {
      for (left += bytes; left > 0;) {
        const { value } = await reader.read();
        left -= value?.byteLength ?? Infinity;
      }
      return left > -Infinity;
    };
  };
}

const ways: Readonly<Record<string, () => Promise<() => Promise<Read>>>> = {
  "over a link of a tool": async () => {
    const site = await openSite();
    return async () => readUrl((await linkTo(site, "big.bin")).download_url);
  },
  "over TLS": async () => {
    const site = await openSite({ tls: createCertificate() });
    return async () => readUrl(await linkOf(site));
  },
  ...(hasNginx && { "behind the documented nginx": behindNginx }),
  "from a sidecar of WebSocket": fromSidecar,
  "with Sluice's client": withClient,
};

test.each(Object.entries(ways))(
  "a reader %s above the least rate is not cut, at any rate",
  async (_where, start) => {
    const open = await start();
    const cuts = await Promise.all(
      rates.map(async (rate) => {
        const read = await open();
        const from = performance.now();
        for (let taken = 0; performance.now() - from < seconds * 1_000;) {
          // a machine that is busy reads later, and then as much more
          const due = ((performance.now() - from) / 1_000) * rate * pace - taken;
          taken += due;
          if (!(await read(Math.ceil(due)))) return [rate, Math.round(performance.now() - from)];
          await sleep(50);
        }
        return undefined;
      }),
    );
    expect(cuts.filter(Boolean)).toEqual([]);
  },
);

test("a reader that stops is given up, on this machine within what is a minute for it", async () => {
  const records: AuditRecord[] = [];
  const site = await openSite({ sluice: { audit: (record) => void records.push(record) } });
  const read = await readUrl(await linkOf(site));
  for (let n = 0; n < 20; n += 1) {
    await read(1_000_000);
    await sleep(10);
  }
  const ends = (): unknown => records.filter(({ outcome }) => outcome === "aborted").length;
  // a busy machine is late
  await expect.poll(ends, { timeout: 3 * (60_000 / pace) }).toBe(1);
});

test.skipIf(!isDeep)("500 readers at 16 KB a second are all there after ten minutes", async () => {
  const site = await openSite({ node: () => ({}), sluice: { limits: { streams: wide } } });
  const reads = await Promise.all(
    Array.from({ length: 500 }, async () => readUrl(await linkOf(site))),
  );
  const from = performance.now();
  let cut = 0;
  for (let taken = 0; performance.now() - from < 600_000;) {
    const due = Math.ceil(((performance.now() - from) / 1_000) * 16_000 - taken);
    taken += due;
    const goOn = await Promise.all(reads.map((read) => read(due)));
    cut = goOn.filter((isOn) => !isOn).length;
    await sleep(500);
  }
  expect(cut).toBe(0);
});
