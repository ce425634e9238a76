// Sessions that share one hold: whose results go where there is no room.
import {
  createMemoryHold,
  createStorageHold,
  type HoldShare,
  type ResultHold,
} from "@sluice/bridge";
import { createMemoryBackend, createUriMapper } from "@sluice/storage";
import { describe, expect, onTestFinished, test } from "vitest";

/** Blocks of memory have up to 1 MiB. */
const unit = 4 * 2 ** 20;
const maxBytes = 10 * unit;
const kinds = {
  memory: () => createMemoryHold({ maxBytes }),
  storage: () => createStorageHold({ storage: createMemoryBackend(), maxBytes }),
};

/** A result with a link. */
async function give(hold: ResultHold, share: HoldShare, bytes: number): Promise<string> {
  const part = await share.create();
  try {
    for (let at = 0; at < bytes; at += 65_536)
      await part.write(Buffer.alloc(Math.min(65_536, bytes - at), 7));
    await part.seal();
    const uri = await part.publish("a.bin");
    hold.keep(uri, Date.now() + 600_000);
    return uri;
  } catch (error) {
    await part.discard();
    throw error;
  }
}

const keyOf = (uri: string): string => createUriMapper("held://results/").toKey(uri);

async function open(hold: ResultHold, uri: string): Promise<void> {
  const { body } = await hold.storage.open(keyOf(uri));
  await new Response(body).arrayBuffer();
}

/** Numbers of the results that are there. */
async function present(hold: ResultHold, uris: readonly string[]): Promise<number[]> {
  const found = await Promise.all(
    uris.map((uri) =>
      hold.storage.describe(keyOf(uri)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.flatMap((isThere, at) => (isThere ? [at] : []));
}

describe.each(Object.entries(kinds))("%s", (_kind, create) => {
  function opened() {
    const hold = create();
    onTestFinished(() => hold.close());
    return hold;
  }

  test("results of an ended session go before all others, the oldest that nobody opened first", async () => {
    const hold = opened();
    const [ended, other, third] = [hold.openShare(), hold.openShare(), hold.openShare()];
    const uris = [
      await give(hold, ended, 2 * unit),
      await give(hold, ended, 2 * unit),
      await give(hold, ended, 2 * unit),
      await give(hold, other, 2 * unit),
    ];
    await open(hold, uris[0]!);
    ended.end();
    await give(hold, third, 2.5 * unit);
    expect(await present(hold, uris)).toEqual([0, 2, 3]);
    await give(hold, third, 2 * unit);
    expect(await present(hold, uris)).toEqual([0, 3]);
  });

  test("a session that has everything leaves another one as much as it keeps", async () => {
    const hold = opened();
    const greedy = hold.openShare();
    const uris: string[] = [];
    for (let at = 0; at < 9; at += 1) uris.push(await give(hold, greedy, unit));
    // all of them opened
    for (const uri of uris.slice(0, 5)) await open(hold, uri);
    await expect(give(hold, greedy, 2 * unit)).rejects.toMatchObject({ code: "no_space" });
    // nothing of its own went for that
    expect(await present(hold, uris)).toHaveLength(9);
    const modest = hold.openShare();
    const mine: string[] = [];
    for (let at = 0; at < 4; at += 1) mine.push(await give(hold, modest, unit));
    expect(await present(hold, mine)).toHaveLength(4);
    // what nobody opened went first
    expect((await present(hold, uris)).slice(0, 5)).toEqual([0, 1, 2, 3, 4]);
    // and never more than half, whoever asks
    for (let at = 0; at < 4; at += 1) await give(hold, modest, unit).catch(() => {});
    expect((await present(hold, uris)).length).toBeGreaterThanOrEqual(4);
    await expect(give(hold, greedy, 3 * unit)).rejects.toMatchObject({ code: "no_space" });
    expect(await present(hold, mine)).toHaveLength(4);
  });

  test("a result that is being read stays, and its reader gets all of it", async () => {
    const hold = opened();
    const ended = hold.openShare();
    const uri = await give(hold, ended, 7 * unit);
    ended.end();
    const { body } = await hold.storage.open(keyOf(uri));
    const reader = body.getReader();
    let bytes = (await reader.read()).value?.length ?? 0;
    const other = hold.openShare();
    await expect(give(hold, other, 6 * unit)).rejects.toMatchObject({ code: "no_space" });
    for (let part = await reader.read(); !part.done; part = await reader.read())
      bytes += part.value.length;
    expect(bytes).toBe(7 * unit);
    await give(hold, other, 4.5 * unit);
    expect(await present(hold, [uri])).toEqual([]);
  });

  test("results that come at the same time share the room of those that go", async () => {
    const hold = opened();
    const ended = hold.openShare();
    for (let at = 0; at < 4; at += 1) await give(hold, ended, 2 * unit);
    ended.end();
    const shares = Array.from({ length: 6 }, () => hold.openShare());
    const given = await Promise.allSettled(shares.map((share) => give(hold, share, 3 * unit)));
    const there = given.filter(({ status }) => status === "fulfilled").length;
    expect(there).toBeLessThanOrEqual(3);
    const { objects } = await hold.storage.list();
    expect(objects.reduce((sum, { size = 0 }) => sum + size, 0)).toBeLessThanOrEqual(maxBytes);
    // all of the room is there again
    for (const share of shares) share.end();
    await give(hold, hold.openShare(), 5 * unit);
  });
});

test("negative control: a hold with one quota for all sessions lets the first one keep everything", async () => {
  const hold = createMemoryHold({ maxBytes });
  onTestFinished(() => hold.close());
  const share = hold.openShare();
  const [greedy, modest] = [share, share];
  for (let at = 0; at < 9; at += 1) await give(hold, greedy, unit);
  await expect(give(hold, modest, 2 * unit)).rejects.toMatchObject({ code: "no_space" });
});
