import { setTimeout } from "node:timers/promises";
import { expect, vi } from "vitest";
import type { Fleet, Member } from "./fleet.ts";
import type { RawAnswer } from "./raw.ts";
import type { RedisServer } from "./redis.ts";

/** Longer than a Redis must have been running before what it forgot is told apart. */
const patience = { timeout: 30_000 };

/** What is tried while Redis comes and goes. */
export interface Outages {
  /** Name of a file that every process serves, for single use. */
  readonly key: string;
  readonly content: Buffer;
  readonly cycles: number;
  readonly clients: number;
  /** Redis hangs as well, for longer than the processes wait. */
  readonly hangs: boolean;
}

/**
 * Ends and starts Redis while URLs are redeemed all the time: none is redeemed twice, whatever is
 * refused is refused with a time to come back, and the processes go on by themselves.
 */
export async function surviveOutages(
  { members }: Fleet,
  redis: RedisServer,
  { key, content, cycles, clients, hangs }: Outages,
): Promise<Survival> {
  const spent = [await spend(members, key)];
  const load = startLoad(members, { key, content, clients });

  async function outage(begin: () => void | Promise<void>, end: () => void | Promise<void>) {
    await begin();
    await expectRefusals(members, spent[0]!);
    await end();
    for (const link of spent) await expectSpent(members, link);
    spent.push(await spend(members, key));
  }

  try {
    await vi.waitFor(() => expect(load.bodies.size).toBeGreaterThan(0), patience);
    for (let cycle = 0; cycle < cycles; cycle++) {
      await outage(
        () => redis.stop(),
        () => redis.start(),
      );
      if (!hangs) continue;
      await outage(
        () => redis.freeze(),
        () => redis.thaw(),
      );
    }
  } finally {
    await load.stop();
  }
  for (const member of members) {
    expect([member.process.exitCode, member.process.signalCode]).toEqual([null, null]);
    expect((await member.state()).faults).toEqual([]);
  }
  return { bodies: [...load.bodies.values()], oddities: load.oddities, refusals: load.refusals() };
}

/** What came of the load. */
interface Survival {
  /** Bodies that each URL gave. */
  readonly bodies: readonly number[];
  /** Answers that no client should get, and requests without one. */
  readonly oddities: readonly string[];
  /** Answers 503 with a time to come back. */
  readonly refusals: number;
}

/** Each URL gave one body at most, and no client got an odd answer. */
export function expectSurvival({ bodies, oddities, refusals }: Survival): void {
  expect(oddities).toEqual([]);
  expect(new Set(bodies)).toEqual(new Set([1]));
  if (process.env["SLUICE_DEEP"])
    console.log(`${bodies.length} URLs redeemed once, none twice; ${refusals} refused for now`);
}

/** Downloads that go on all the time, and what came of them. */
interface Load {
  /** Bodies that each URL gave. */
  readonly bodies: ReadonlyMap<string, number>;
  /** Answers 503 with a time to come back. */
  readonly refusals: () => number;
  /** Answers that no client should get, and requests without one. */
  readonly oddities: readonly string[];
  stop(): Promise<void>;
}

/** Each client gets URLs from one process after the other, and redeems each of them at two others. */
function startLoad(
  members: readonly Member[],
  { key, content, clients }: Pick<Outages, "key" | "content" | "clients">,
): Load {
  const bodies = new Map<string, number>();
  const oddities: string[] = [];
  const over = new AbortController();
  let refusals = 0;

  function note(link: string, answer: RawAnswer): void {
    const { status, headers, bytes } = answer;
    const isBody = status === 200 && bytes.equals(content);
    if (isBody) bodies.set(link, (bodies.get(link) ?? 0) + 1);
    else if (status === 503 && Number(headers["retry-after"]) >= 1) refusals += 1;
    else if (status !== 404) oddities.push(`status ${status}`);
  }

  async function download(n: number): Promise<void> {
    const [minter, ...others] = [0, 1, 2].map((step) => members[(n + step) % 3]!);
    const link = await minter!.link(key);
    const answers = await Promise.all(others.map((member) => member.get(link)));
    for (const answer of answers) note(link, answer);
    await setTimeout(5);
  }

  async function work(first: number): Promise<void> {
    for (let n = first; !over.signal.aborted; n += 1)
      await download(n).catch((error: unknown) => oddities.push(String(error)));
  }

  const working = Promise.all(Array.from({ length: clients }, (_, n) => work(n)));
  return {
    bodies,
    oddities,
    refusals: () => refusals,
    async stop() {
      over.abort();
      await working;
    },
  };
}

async function expectRefusals(members: readonly Member[], link: string): Promise<void> {
  for (const member of members)
    await vi.waitFor(async () => {
      const { status, headers } = await member.get(link);
      expect([status, Number(headers["retry-after"]) >= 1]).toEqual([503, true]);
    }, patience);
}

/** Waits until every process knows of a URL that it is spent. */
async function expectSpent(members: readonly Member[], link: string): Promise<void> {
  for (const member of members)
    await vi.waitFor(async () => expect((await member.get(link)).status).toBe(404), patience);
}

/** A new URL, once one is redeemed. */
async function spend([first, second]: readonly Member[], key: string): Promise<string> {
  return vi.waitFor(async () => {
    const link = await first!.link(key);
    expect((await second!.get(link)).status).toBe(200);
    return link;
  }, patience);
}
