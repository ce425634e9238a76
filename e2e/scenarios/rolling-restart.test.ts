// @module-tag slow
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { streamResource } from "@sluice/client";
import { formatKey, generateKey } from "@sluice/core";
import { request, type Dispatcher } from "undici";
import { expect, onTestFinished, test } from "vitest";
import { connect } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { hasNginx, startNginx } from "../bed/nginx.ts";
import { startProgram, type Program } from "../bed/program.ts";
import type { DrainReport, ServeDrainingSettings } from "../bed/programs/serve-draining.ts";
import { call } from "../bed/raw.ts";
import { hasRedis, startRedis } from "../bed/redis.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
/** What a connection holds in its buffers must be less than a download still lacks when the last process ends. */
const size = (isDeep ? 64 : 36) * 2 ** 20;
const downloads = isDeep ? 100 : 4;
const names = isDeep ? ["a", "b", "c"] : ["a", "b"];
const signals = isDeep ? (["SIGTERM", "SIGKILL"] as const) : (["SIGTERM"] as const);
const deadlineMs = isDeep ? 1_000 : 20;
const uri = "files://site/file.bin";

test.skipIf(!hasNginx || !hasRedis).for(signals)(
  `%s to each of ${names.length} processes under ${downloads} downloads: all arrive, and at most one byte in twenty is sent twice`,
  { timeout: 300_000 },
  async (signal) => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-rolling-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = bytesOf(size, "rolling");
    const root = join(folder, "root");
    await mkdir(root);
    await writeFile(join(root, "file.bin"), file);
    const site = await startBalanced(folder, root);
    const client = await connect("SDK v2, modern", site.endpoint);
    onTestFinished(() => client.close());

    const gate = createGate(downloads);
    async function download(n: number): Promise<void> {
      const { body } = await streamResource(client, uri, {
        prefer: [n % 2 === 0 ? "direct" : "downloadUrl"],
        ...(!isDeep && { timeouts: { pauseScale: 0.02 } }),
      });
      await compare(body, file, (at) => gate.pass(at));
    }
    const share = size / (names.length + 1);
    gate.allow(share);
    const all = Promise.all(Array.from({ length: downloads }, (_, n) => download(n)));
    const underWay = () => Promise.race([gate.isFull(), all]);
    // one that does not know how to go on, beside them
    const naive = createGate(1);
    naive.allow(share);
    const { body } = await askNaively(site.endpoint);
    const naively = compare(body, file, (at) => naive.pass(at)).catch(codeOf);
    await Promise.all([naive.isFull(), underWay()]);
    for (const [step, name] of names.entries()) {
      const isLast = name === names.at(-1);
      const restarted = site
        .end(name, signal)
        .then(() => (!isLast || isDeep ? site.begin(name) : undefined));
      // the last share is for after the last restart
      if (!isLast) gate.allow(share * (step + 2));
      await Promise.all([restarted, underWay()]);
    }
    gate.allow(Number.POSITIVE_INFINITY);
    await all;

    expect(site.reports.flatMap(({ errors }) => errors)).toEqual([]);
    const cut = site.reports.reduce((sum, report) => sum + report.cut, 0);
    // one that waited longer than a server has patience for a reader was given up before
    expect(signal === "SIGKILL" ? 1 : cut).toBeGreaterThan(0);
    // nginx notes what a request was when it is over
    await expect.poll(() => site.received("")).toBeGreaterThanOrEqual(downloads * size);
    expect(await site.received("")).toBeLessThanOrEqual(1.05 * downloads * size);

    // what was cut does not look whole, and beginning again is seen
    naive.allow(Number.POSITIVE_INFINITY);
    expect(await naively).toMatch(/^(?:UND_ERR_SOCKET|ECONNRESET)$/);
    await compare((await askNaively(site.endpoint)).body, file);
    await expect.poll(() => site.received("naive")).toBeGreaterThan(1.05 * size);
  },
);

/** Reads what must be the bytes of the file. */
async function compare(
  body: AsyncIterable<Uint8Array>,
  file: Buffer,
  onBytes?: (at: number) => Promise<void>,
): Promise<void> {
  let at = 0;
  for await (const chunk of body) {
    if (!file.subarray(at, at + chunk.byteLength).equals(chunk))
      throw new Error(`other bytes before ${at + chunk.byteLength}`);
    at += chunk.byteLength;
    await onBytes?.(at);
  }
  expect(at).toBe(file.byteLength);
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code;
}

/** Asks for the bytes as a client without ranges, with a mark by which the balancer counts them. */
async function askNaively(endpoint: string): Promise<Dispatcher.ResponseData> {
  const streaming = { prefer: ["downloadUrl" as const] };
  const { message } = await call(endpoint, "resources/stream", { uri }, { streaming });
  const answer = await request(`${String(message?.result?.["downloadUrl"])}?by=naive`);
  expect(answer.statusCode).toBe(200);
  return answer;
}

/** Lets readers come to a byte, and no further. */
function createGate(readers: number) {
  const waiting = new Set<() => void>();
  let limit = 0;
  let whenFull = (): void => {};
  return {
    allow(bytes: number): void {
      limit = bytes;
      for (const go of waiting) go();
      waiting.clear();
    },
    async pass(at: number): Promise<void> {
      // oxlint-disable-next-line no-unmodified-loop-condition -- `allow` modifies it
      while (at >= limit)
        await new Promise<void>((resolve) => {
          waiting.add(resolve);
          if (waiting.size === readers) whenFull();
        });
    },
    /** Resolves when all of them wait. */
    async isFull(): Promise<void> {
      if (waiting.size < readers) await new Promise<void>((resolve) => void (whenFull = resolve));
    },
  };
}

/** Processes with the same keys and Redis over one folder, behind an nginx that sends each request to the next one. */
async function startBalanced(folder: string, root: string) {
  const traffic = join(folder, "traffic");
  const redis = await startRedis();
  onTestFinished(() => redis[Symbol.asyncDispose]());
  const nginx = await startNginx(
    (port) => `
      upstream processes { ${names.map((name) => `server unix:${join(folder, name)} max_fails=0;`).join(" ")} }
      log_format traffic "$arg_by:$upstream_bytes_received";
      server {
        listen 127.0.0.1:${port} sndbuf=256k;
        access_log ${traffic} traffic;
        location / {
          proxy_pass http://processes;
          proxy_http_version 1.1;
          proxy_set_header Connection "";
          proxy_set_header Host $http_host;
          proxy_buffering off;
          proxy_next_upstream error timeout http_503;
        }
      }`,
  );
  onTestFinished(() => nginx.close());
  const endpoint = `${nginx.origin}/mcp`;
  const keys = formatKey(generateKey());
  const processes = new Map<string, Program<string>>();
  onTestFinished(async () => {
    for (const each of processes.values()) await each[Symbol.asyncDispose]();
  });
  const reports: DrainReport[] = [];

  async function begin(name: string): Promise<void> {
    const settings = {
      socket: join(folder, name),
      endpoint,
      keys,
      redis: redis.path,
      root,
      deadlineMs,
    } satisfies ServeDrainingSettings;
    processes.set(name, await startProgram("serve-draining", settings));
  }
  await Promise.all(names.map(begin));

  return {
    endpoint,
    begin,
    /** What the processes said when they ended. */
    reports: reports as readonly DrainReport[],
    /** Ends a process, which must end as it was told to. */
    async end(name: string, signal: NodeJS.Signals): Promise<void> {
      const { process: child } = processes.get(name)!;
      child.once("message", (report: DrainReport) => void reports.push(report));
      // its last message may come behind its end
      const over = Promise.all([once(child, "exit"), once(child, "disconnect")]);
      child.kill(signal);
      expect((await over)[0]).toEqual(signal === "SIGKILL" ? [null, signal] : [0, null]);
    },
    /** Bytes that nginx had from the processes for URLs with that mark. */
    async received(by: string): Promise<number> {
      const lines = (await readFile(traffic, "utf8")).split("\n");
      return lines
        .map((line) => line.split(":"))
        .filter(([mark]) => mark === (by || "-"))
        .flatMap(([, ...counts]) => counts.join().match(/\d+/g) ?? [])
        .reduce((sum, count) => sum + Number(count), 0);
    },
  };
}
