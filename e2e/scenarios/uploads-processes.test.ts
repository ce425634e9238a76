// @module-tag slow
import { createHash, randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { request, type ClientRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { formatKey, generateKey } from "@sluice/core";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { startProgram, type Program } from "../bed/program.ts";
import type { ServeUploadsHello, ServeUploadsSettings } from "../bed/programs/serve-uploads.ts";
import { createRandom } from "../bed/random.ts";
import { hasRedis, startRedis, type RedisServer } from "../bed/redis.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const moves = isDeep ? 40 : 1;
const kills = isDeep ? 6 : 0;
const madeUp = isDeep ? 3_000 : 60;
if (!isDeep) console.log("uploads in many processes: killed ones are for SLUICE_DEEP=1");
vi.setConfig({ testTimeout: 300_000, hookTimeout: 60_000 });

type Served = Program<ServeUploadsHello>;
const endpoint = "http://127.0.0.1:9/mcp";

describe.runIf(hasRedis)("uploads that two processes share", () => {
  let folder = "";
  let redis: RedisServer;
  let settings: ServeUploadsSettings;
  let served: Served[] = [];
  let slots: string[] = [];

  const start = (): Promise<Served> => startProgram<ServeUploadsHello>("serve-uploads", settings);
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-uploads-"));
    const root = join(folder, "uploads");
    await mkdir(root);
    redis = await startRedis();
    settings = { root, endpoint, keys: formatKey(generateKey()), redis: redis.path };
    served = await Promise.all([start(), start()]);
    slots = [...served[0]!.hello.slots];
  });
  afterAll(async () => {
    await Promise.all(served.map((program) => program[Symbol.asyncDispose]()));
    await redis?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  /** Where a URL is at one of the processes. */
  const at = (which: number, url: string): string =>
    url.replace(endpoint, `http://127.0.0.1:${served[which]!.hello.port}/mcp`);
  const slot = (): string => slots.pop()!;

  /** Begins a file at a process, sends some of it, and leaves the request open. */
  async function beginAt(which: number, url: string, size: number, sent: Uint8Array) {
    const headers = { "upload-complete": "?0", "upload-length": String(size) };
    const begun = await fetch(at(which, url), { method: "POST", headers });
    const location = begun.headers.get("location")!;
    const sending: ClientRequest = request(at(which, location), {
      method: "PATCH",
      headers: { ...step(0), "content-length": String(size) },
    });
    sending.on("error", () => {}).on("response", (answer) => answer.resume());
    sending.write(sent);
    const received = async (): Promise<number> =>
      ((await (await fetch(at(which, url))).json()) as { received: number }).received;
    await expect.poll(received, { timeout: 30_000 }).toBe(sent.length);
    return { location, sending };
  }

  /** Goes on with a file at a process until it is whole; where it went on. */
  async function finishAt(which: number, location: string, bytes: Buffer<ArrayBuffer>) {
    const there = at(which, location);
    const { headers } = await fetch(there, { method: "HEAD" });
    const offset = Number(headers.get("upload-offset"));
    const body = bytes.subarray(offset);
    const last = await fetch(there, { method: "PATCH", headers: step(offset), body });
    expect(last.status).toBe(201);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    expect(await last.json()).toMatchObject({ size: bytes.length, sha256 });
    return offset;
  }

  test(`an upload goes on in the other process with every byte that the first one had (${moves} times)`, async () => {
    const random = createRandom(1);
    for (let round = 0; round < moves; round++) {
      const bytes = randomBytes(1_000_000);
      const sent = bytes.subarray(0, random.int(1, 999_000));
      const { location, sending } = await beginAt(round % 2, slot(), bytes.length, sent);
      expect(await finishAt((round + 1) % 2, location, bytes)).toBe(sent.length);
      sending.destroy();
    }
  });

  test("a made-up id, and that of a file of another slot, ends no upload in any of three processes and leaves nothing in Redis", async () => {
    const third = await start();
    served.push(third);
    onTestFinished(async () => {
      served.splice(served.indexOf(third), 1);
      await third[Symbol.asyncDispose]();
    });
    const bytes = randomBytes(100_000);
    const { location, sending } = await beginAt(0, slot(), bytes.length, bytes.subarray(0, 50_000));
    const answered = new Promise<number>((resolve) =>
      sending.on("response", ({ statusCode = 0 }) => resolve(statusCode)),
    );
    const foreign = slot();
    const commander = new Redis({ path: redis.path });
    onTestFinished(() => commander.disconnect());
    const keys = await commander.dbsize();
    const fileId = location.split("/").at(-1)!;
    const statusOf = async (n: number): Promise<number[]> => {
      const id = n % 10 === 0 ? fileId : randomBytes(24).toString("base64url");
      const ask = (method: string) => fetch(at(n % 3, `${foreign}/${id}`), { method });
      return [(await ask("HEAD")).status, (await ask("DELETE")).status];
    };
    let sentBytes = 50_000;
    for (let n = 0; n < madeUp; n += 50) {
      // the upload in progress is given up after 15 s of silence
      sending.write(bytes.subarray(sentBytes, sentBytes + 1));
      sentBytes += 1;
      const ids = Array.from({ length: Math.min(50, madeUp - n) }, (_, more) => n + more);
      expect(new Set((await Promise.all(ids.map(statusOf))).flat())).toEqual(new Set([404]));
    }
    expect(await commander.dbsize()).toBeLessThanOrEqual(keys);
    sending.end(bytes.subarray(sentBytes));
    expect(await answered).toBe(201);
  });

  test("are refused while Redis hangs, and continue afterwards", async () => {
    const url = slot();
    const bytes = randomBytes(1_000);
    redis.freeze();
    try {
      const refused = await fetch(at(0, url), { method: "PUT", body: bytes });
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    } finally {
      redis.thaw();
    }
    const again = async (): Promise<number> =>
      (await fetch(at(1, url), { method: "PUT", body: bytes })).status;
    await expect.poll(again, { timeout: 30_000 }).toBe(201);
  });

  test.runIf(kills > 0)(
    `an upload goes on after its process was killed, within 15 s (${kills} times)`,
    async () => {
      const random = createRandom(3);
      for (let round = 0; round < kills; round++) {
        const bytes = randomBytes(20_000_000);
        const { location, sending } = await beginAt(
          0,
          slot(),
          bytes.length,
          bytes.subarray(0, 10_000_000),
        );
        await wait(random.int(0, 300));
        served[0]!.process.kill("SIGKILL");
        const began = Date.now();
        const offset = await finishAt(1, location, bytes);
        expect(offset).toBeLessThanOrEqual(10_000_000);
        expect(Date.now() - began).toBeLessThan(15_000);
        sending.destroy();
        served[0] = await start();
      }
    },
  );
});

function step(offset: number): Record<string, string> {
  return {
    "content-type": "application/partial-upload",
    "upload-offset": String(offset),
    "upload-complete": "?1",
  };
}
