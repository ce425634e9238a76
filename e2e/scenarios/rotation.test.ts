import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { createKeyRing, createSealer, formatKey, generateKey, type SealingKey } from "@sluice/core";
import { parseKeyFile } from "@sluice/server/internal/node";
import { openKeyFile } from "@sluice/server/node";
import { createMemoryBackend } from "@sluice/storage";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { bytesOf } from "../bed/content.ts";
import { startFleet } from "../bed/fleet.ts";
import { createSharedServer, sharedEndpoint, type TokenDesk } from "../bed/token-desk.ts";
import { runHere } from "../../packages/cli/test/run-here.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const key = "plans.bin";
const content = bytesOf(1_000, "secret plans");

/** Three processes; by default two servers in this one. Either follow one file. */
interface Followers extends AsyncDisposable {
  readonly members: readonly TokenDesk[];
  readonly keysFile: string;
}

async function startFollowers(): Promise<Followers> {
  if (isDeep) return startFleet({ files: { [key]: content }, size: 3 });
  const folder = await mkdtemp(join(tmpdir(), "sluice-rotation-"));
  const keysFile = join(folder, "keys");
  await writeFile(keysFile, `${formatKey(generateKey())}\n`, { mode: 0o600 });
  const storage = createMemoryBackend({ [key]: content });
  const files = [1, 2].map(() => openKeyFile({ path: keysFile, pollIntervalMs: 10 }));
  const opened = await Promise.all(files);
  return {
    members: opened.map(({ keys }) => createSharedServer({ storage, keys }).desk),
    keysFile,
    async [Symbol.asyncDispose]() {
      for (const file of opened) file.close();
      await rm(folder, { recursive: true });
    },
  };
}

let fleet: Followers;
beforeAll(async () => void (fleet = await startFollowers()));
afterAll(() => fleet?.[Symbol.asyncDispose]());

/** Runs `sluice keys`, as an operator does. */
async function sluiceKeys(...args: readonly string[]): Promise<void> {
  expect((await runHere(["keys", ...args])).status).toBe(0);
}

const keysIn = async () => parseKeyFile(await readFile(fleet.keysFile, "utf8"));

/** Waits until every process has the keys that are in the file. */
async function followed(): Promise<void> {
  const states = new Map((await keysIn()).map(({ kid, state = "current" }) => [kid, state]));
  await vi.waitFor(
    async () => {
      for (const member of fleet.members) {
        const [current, ...kids] = await member.keys();
        expect(states.get(current!)).toBe("current");
        expect(new Set(kids)).toEqual(new Set(states.keys()));
      }
    },
    { timeout: 30_000 },
  );
}

/** What processes made of each other's tokens. */
interface Traffic {
  readonly redeemed: () => number;
  readonly refused: () => number;
  /** Tokens of a key that are still to be redeemed. */
  readonly open: (kid: string) => number;
  stop(): Promise<void>;
}

/** Every process makes tokens all the time, and another one opens each of them some batches later. */
function startTraffic(batch: number, pauseMs: number): Traffic {
  const size = fleet.members.length;
  const over = new AbortController();
  const open = new Map<string, number>();
  let redeemed = 0;
  let refused = 0;

  function count(tokens: readonly string[], change: 1 | -1): void {
    for (const token of tokens) {
      const kid = token.slice("v1.".length, "v1.kk".length);
      open.set(kid, (open.get(kid) ?? 0) + change);
    }
  }

  async function work(first: number): Promise<void> {
    const waiting: string[][] = [];
    for (let n = 0; !over.signal.aborted || waiting.length > 0; n += 1) {
      if (!over.signal.aborted) {
        const tokens = await fleet.members[first]!.mint(key, batch);
        count(tokens, 1);
        waiting.push(tokens);
        if (waiting.length < 4) continue;
      }
      const tokens = waiting.shift()!;
      const statuses = await fleet.members[(first + 1 + (n % (size - 1))) % size]!.redeem(tokens);
      count(tokens, -1);
      redeemed += statuses.filter((status) => status === 200).length;
      refused += statuses.filter((status) => status !== 200).length;
      await setTimeout(pauseMs);
    }
  }

  const working = Promise.all(fleet.members.map((_, first) => work(first)));
  // told by stop()
  working.catch(() => {});
  return {
    redeemed: () => redeemed,
    refused: () => refused,
    open: (kid) => open.get(kid) ?? 0,
    async stop() {
      over.abort();
      await working;
    },
  };
}

test("through whole rotations under load no process refuses a token of another one", async () => {
  const { rotations, batch, pauseMs } = isDeep
    ? { rotations: 3, batch: 50, pauseMs: 0 }
    : { rotations: 1, batch: 2, pauseMs: 20 };
  const keysBefore = await keysIn();
  const startedAt = performance.now();
  const traffic = startTraffic(batch, pauseMs);
  try {
    for (let rotation = 0; rotation < rotations; rotation++) {
      await sluiceKeys("rotate", fleet.keysFile);
      await followed();
      await sluiceKeys("rotate", fleet.keysFile);
      await followed();
      const old = (await keysIn()).find(({ state }) => state === "previous")!;
      await vi.waitFor(() => expect(traffic.open(old.kid)).toBe(0), { timeout: 30_000 });
      await sluiceKeys("rotate", fleet.keysFile);
      await followed();
      expect(await keysIn()).toHaveLength(1);
      if (isDeep) await setTimeout(5_000);
    }
  } finally {
    await traffic.stop();
  }
  const seconds = (performance.now() - startedAt) / 1_000;
  expect(traffic.refused()).toBe(0);
  expect(traffic.redeemed()).toBeGreaterThan(0);
  if (isDeep)
    console.log(
      `${traffic.redeemed()} tokens through ${rotations} rotations in ${seconds.toFixed(1)} s: ${Math.round(traffic.redeemed() / seconds)} a second, ${traffic.refused()} refused`,
    );

  // a process that did not follow refuses them, which is noticed
  const [token = ""] = await fleet.members[0]!.mint(key, 1);
  const unseal = (keys: readonly SealingKey[]) =>
    createSealer({ keys: createKeyRing(keys), audience: sharedEndpoint }).unseal("download", token);
  expect(unseal(await keysIn()).key).toBe(key);
  expect(() => unseal(keysBefore)).toThrow("not valid here");
});

test("a key that is dropped takes its tokens along in every process that has seen it", async () => {
  const rounds = isDeep ? 10 : 1;
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const [dropped] = await keysIn();
    const tokens = (await Promise.all(fleet.members.map((each) => each.mint(key, 5)))).flat();
    const redeemAll = async () =>
      (await Promise.all(fleet.members.map((each) => each.redeem(tokens)))).flat();
    // every process remembers them for a second
    expect(new Set(await redeemAll())).toEqual(new Set([200]));
    const dropping = sluiceKeys("drop", fleet.keysFile, dropped!.kid);
    const lastGoodAt = isDeep ? await lastGood(redeemAll) : 0;
    await dropping;
    await followed();
    expect(new Set(await redeemAll())).toEqual(new Set([404]));
    if (isDeep) times.push(lastGoodAt - (await stat(fleet.keysFile)).mtimeMs);
  }
  if (isDeep) console.log(`dead ${times.map(Math.round).join(", ")} ms after the file was written`);
});

/** When something was good for the last time, in unix milliseconds. */
async function lastGood(redeem: () => Promise<number[]>): Promise<number> {
  for (let goodAt = 0; ; goodAt = Date.now()) if (!(await redeem()).includes(200)) return goodAt;
}
