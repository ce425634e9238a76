import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKeyRing, generateKey } from "@sluice/core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { dropKey, rotateKeys } from "../src/commands/keys-command.ts";
import { runHere } from "./run-here.ts";

let root = "";
beforeAll(async () => void (root = await mkdtemp(join(tmpdir(), "sluice-keys-"))));
afterAll(() => rm(root, { recursive: true }));

const keys = (...args: string[]) => runHere(["keys", ...args]);

test("a rotation publishes a key, seals with it, and retires the old one", () => {
  const first = [generateKey()];
  const published = rotateKeys(first);
  expect(published).toMatchObject({ step: "published", kid: "k2" });
  expect(createKeyRing(published.keys).current).toBe("k1");
  const flipped = rotateKeys(published.keys);
  expect(flipped).toMatchObject({ step: "flipped", kid: "k2" });
  const ring = createKeyRing(flipped.keys);
  expect([ring.current, ...ring.kids]).toEqual(["k2", "k2", "k1"]);
  const retired = rotateKeys(flipped.keys);
  expect(retired).toMatchObject({ step: "retired", kid: "k1" });
  expect(createKeyRing(retired.keys).kids).toEqual(["k2"]);
  // its name is free again, its bytes are not the same
  const again = rotateKeys(retired.keys);
  expect(again.kid).toBe("k1");
  expect(Buffer.from(again.keys[1]!.key).equals(first[0]!.key)).toBe(false);
});

test("a key that is dropped counts no more, and there is always one that seals", () => {
  const [current] = [generateKey()];
  expect(dropKey([current], "xx")).toBeUndefined();
  const alone = dropKey([current], "k1")!;
  expect(createKeyRing(alone)).toMatchObject({ current: "k2", kids: ["k2"] });
  const published = rotateKeys([current]).keys;
  expect(createKeyRing(dropKey(published, "k1")!)).toMatchObject({ current: "k2", kids: ["k2"] });
  expect(createKeyRing(dropKey(published, "k2")!)).toMatchObject({ current: "k1", kids: ["k1"] });
});

test("sluice keys makes a file for its owner, rotates it, and shows no key", async () => {
  const file = join(root, "keys");
  const made = await keys("new", file);
  expect(made.status).toBe(0);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const again = await keys("new", file);
  expect([again.status, again.stderr]).toEqual([
    exitCodes.target.status,
    `sluice: ${file} exists; name another file, or rotate its keys\n`,
  ]);
  const steps = [await keys("rotate", file), await keys("rotate", file)];
  expect(steps.map(({ stderr }) => stderr.split(":")[0])).toEqual([
    "k2 is published",
    "k2 seals now",
  ]);
  const listed = await keys("list", file);
  expect(listed.stdout).toBe("k1\tprevious\nk2\tcurrent\n");
  expect((await keys("drop", file, "k1")).status).toBe(0);
  expect((await keys("list", file)).stdout).toBe("k2\tcurrent\n");
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const [, secret = ""] = (await readFile(file, "utf8")).trim().split(":");
  for (const { stdout, stderr } of [made, again, ...steps, listed])
    expect(stdout + stderr).not.toContain(secret);
});

test("rejects an invalid key file, and one that others may read, with what to do", async () => {
  const file = join(root, "wrong");
  await writeFile(file, "k1:tooshort\n", { mode: 0o600 });
  const listed = await keys("list", file);
  expect(listed.status).toBe(exitCodes.usage.status);
  expect(listed.stderr).toMatch(/^sluice: .+; make one with `sluice keys new`\n$/);
  const open = join(root, "open");
  await keys("new", open);
  await chmod(open, 0o644);
  const served = await runHere(["serve", root, "--port", "0", "--no-audit", "--keys", open]);
  expect(served.status).toBe(exitCodes.usage.status);
  expect(served.stderr).toMatch(/others may read it.*chmod 600/);
});
