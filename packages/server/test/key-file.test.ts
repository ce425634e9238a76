import { chmod, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSealer, formatKey, generateKey, type SealingKey } from "@sluice/core";
import { openKeyFile } from "@sluice/server/node";
import { afterAll, beforeAll, expect, test, vi } from "vitest";

let root = "";
beforeAll(async () => void (root = await mkdtemp(join(tmpdir(), "sluice-key-file-"))));
afterAll(() => rm(root, { recursive: true }));

const patience = { timeout: 20_000 };
const old = generateKey();
const fresh = generateKey({ kid: "k2" });

async function write(path: string, keys: readonly SealingKey[]): Promise<void> {
  await writeFile(`${path}.new`, keys.map(formatKey).join("\n"), { mode: 0o600 });
  await rename(`${path}.new`, path);
}

const states = (...pairs: [SealingKey, SealingKey["state"]][]): SealingKey[] =>
  pairs.map(([{ kid, key }, state]) => ({ kid, key, state: state! }));

test("through a whole rotation every token that lives is opened by every process, and none once its key is gone", async () => {
  const path = join(root, "rotated");
  await write(path, [old]);
  using one = await openKeyFile({ path, pollIntervalMs: 5 });
  using two = await openKeyFile({ path, pollIntervalMs: 5 });
  const audience = "https://files.example.com/mcp";
  const sealers = [one, two].map(({ keys }) => createSealer({ keys, audience }));
  const terms = { key: "a.bin", use: "window" } as const;
  const tokens: string[] = [];
  const now = Date.now();
  const sealAll = (): void => {
    for (const sealer of sealers) tokens.push(sealer.seal("download", terms).token);
  };
  const openAll = (): void => {
    for (const sealer of sealers)
      for (const token of tokens) sealer.unseal("download", token, { now });
  };
  const followed = (kids: string) =>
    vi.waitFor(() => {
      for (const { keys } of [one, two]) expect([keys.current, ...keys.kids].join()).toBe(kids);
    }, patience);

  sealAll();
  await write(path, states([old, "current"], [fresh, "next"]));
  await followed("k1,k2,k1");
  sealAll();
  openAll();
  await write(path, states([old, "previous"], [fresh, "current"]));
  await followed("k2,k2,k1");
  sealAll();
  openAll();
  await write(path, states([fresh, "current"]));
  await followed("k2,k2");
  const dead = tokens.splice(0, 4);
  openAll();
  for (const sealer of sealers)
    for (const token of dead)
      expect(() => sealer.unseal("download", token, { now })).toThrow(/not_found|token/);
});

test("a file that was broken leaves the keys as they were, and is complained about once", async () => {
  const path = join(root, "broken");
  await write(path, [old]);
  const errors: unknown[] = [];
  using file = await openKeyFile({
    path,
    pollIntervalMs: 5,
    onError: (error) => errors.push(error),
  });
  await writeFile(`${path}.new`, "nonsense", { mode: 0o600 });
  await rename(`${path}.new`, path);
  await vi.waitFor(() => expect(errors).toHaveLength(1), patience);
  expect(String(errors[0])).not.toContain("nonsense");
  expect(file.keys.kids).toEqual(["k1"]);
  await rm(path);
  await vi.waitFor(() => expect(errors).toHaveLength(2), patience);
  await write(path, [fresh]);
  await vi.waitFor(() => expect(file.keys.kids).toEqual(["k2"]), patience);
  expect(errors).toHaveLength(2);
});

test.runIf(process.platform !== "win32")(
  "a file that others may read, or that is invalid, is refused",
  async () => {
    const path = join(root, "open");
    await write(path, [old]);
    await chmod(path, 0o640);
    await expect(openKeyFile({ path })).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(openKeyFile({ path: root })).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(openKeyFile({ path: join(root, "gone") })).rejects.toMatchObject({
      code: "invalid_argument",
    });
  },
);
