import { constants } from "node:fs";
import {
  link,
  mkdir,
  open,
  readFile,
  realpath,
  rename,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { SluiceError } from "@sluice/core";
import { createFsBackend } from "@sluice/storage-fs";
import { describe, expect, test } from "vitest";
import { hostileKeys } from "./hostile-keys.ts";
import { createTemporaryTree, readAll, type TemporaryTree } from "./temporary-tree.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const secret = "outside the root";

type Read = (key: string) => Promise<string>;

/** A root with `inside/file.txt` and links, and secrets around it. */
async function createHostileTree(): Promise<TemporaryTree> {
  const tree = await createTemporaryTree();
  await tree.put("inside/file.txt", "inside");
  await writeFile(join(tree.path, "secret.txt"), secret);
  await mkdir(`${tree.root}-secret`);
  await writeFile(`${tree.root}-secret/secret.txt`, secret);
  await symlink("..", join(tree.root, "up"));
  await symlink("../secret.txt", join(tree.root, "link"));
  return tree;
}

function readerOf(root: string): Read {
  const backend = createFsBackend({ root });
  return async (key) => (await readAll((await backend.open(key)).body)).toString();
}

/** How many of the keys gave a secret. Everything else must be a file of the root or an error of ours. */
async function countEscapes(read: Read, keys: readonly string[]): Promise<number> {
  let escapes = 0;
  for (const key of keys) {
    const content = await read(key).catch((error: unknown) => error);
    if (content === secret || String(content).includes("root:")) escapes++;
  }
  return escapes;
}

describe("a file outside the root", () => {
  test("is out of reach for every hostile key", async () => {
    await using tree = await createHostileTree();
    const keys = hostileKeys(isDeep ? 10_000 : 1000);
    const read = readerOf(tree.root);
    const failures = new Set<string>();
    for (const key of keys) {
      const outcome = await read(key).catch((error: unknown) => error);
      failures.add(SluiceError.is(outcome) ? outcome.code : `${key} gave ${String(outcome)}`);
    }
    expect(keys.length).toBeGreaterThanOrEqual(1000);
    const expected = ["invalid_argument", "not_found", "permission_denied", "unsupported"];
    expect(expected).toEqual(expect.arrayContaining([...failures]));
    expect(tree.countOpen().files).toBe(0);
  });

  test("would be read by code that compares the start of paths", async () => {
    await using tree = await createHostileTree();
    const naive: Read = async (key) => {
      const path = join(tree.root, key);
      if (!path.startsWith(tree.root)) throw new Error("outside");
      return readFile(path, "utf8");
    };
    expect(await countEscapes(naive, hostileKeys(1000))).toBeGreaterThan(0);
    expect(await naive("../data-secret/secret.txt")).toBe(secret);
  });

  test("stays outside when the name of a sibling begins like the root's", async () => {
    await using tree = await createHostileTree();
    await symlink(`${tree.root}-secret`, join(tree.root, "sibling"));
    const backend = createFsBackend({ root: tree.root });
    await expect(backend.open("sibling/secret.txt")).rejects.toMatchObject({
      code: "permission_denied",
    });
    await expect(backend.describe("sibling/secret.txt")).rejects.toMatchObject({
      code: "permission_denied",
    });
  });

  test("is not told apart by messages: they name the key and no path", async () => {
    await using tree = await createHostileTree();
    const backend = createFsBackend({ root: tree.root });
    for (const key of ["link", "up/secret.txt", "nothing", "inside"])
      await expect(backend.open(key)).rejects.not.toThrow(tree.path);
  });
});

describe("links", () => {
  test("are not followed at the end of a key, even if they lead inside", async () => {
    await using tree = await createHostileTree();
    await symlink("inside/file.txt", join(tree.root, "alias.txt"));
    const backend = createFsBackend({ root: tree.root });
    for (const key of ["link", "alias.txt"])
      await expect(backend.open(key)).rejects.toMatchObject({ code: "permission_denied" });
  });

  test("lead to the canonical key on the way while they stay inside", async () => {
    await using tree = await createHostileTree();
    await symlink("inside", join(tree.root, "folder"));
    const backend = createFsBackend({ root: tree.root });
    const described = await backend.describe("folder/file.txt");
    expect(described).toEqual(await backend.describe("inside/file.txt"));
    expect(described.key).toBe("inside/file.txt");
  });

  test("lead to nothing hidden on the way", async () => {
    await using tree = await createHostileTree();
    await tree.put(".git/config", "hidden");
    await symlink(".git", join(tree.root, "git"));
    const backend = createFsBackend({ root: tree.root });
    await expect(backend.open("git/config")).rejects.toMatchObject({ code: "not_found" });
    const showing = createFsBackend({ root: tree.root, dotfiles: true });
    expect((await showing.describe("git/config")).key).toBe(".git/config");
  });

  test("are resolved once for the root itself, when the backend is created", async () => {
    await using tree = await createHostileTree();
    const current = join(tree.path, "current");
    await symlink("data", current);
    const read = readerOf(current);
    await symlink("data-secret", `${current}.new`);
    await rename(`${current}.new`, current);
    expect(await read("inside/file.txt")).toBe("inside");
    await expect(read("secret.txt")).rejects.toMatchObject({ code: "not_found" });
  });

  test("are served if hard, since they cannot be told from files", async () => {
    await using tree = await createHostileTree();
    await link(join(tree.path, "secret.txt"), join(tree.root, "hard.txt"));
    expect(await readerOf(tree.root)("hard.txt")).toBe(secret);
  });
});

describe("while another process swaps a folder for a link to the outside", () => {
  const lasts = isDeep ? 60_000 : 0;
  /** So many show code that loses the race. */
  const leastAttempts = 8_000;

  test.runIf(process.platform === "linux")(
    "no byte and no name of the outside comes",
    { tags: "slow", timeout: lasts + 60_000 },
    async () => {
      await using tree = await createSwappedTree();
      const read = readerOf(tree.root);
      const lister = createFsBackend({ root: tree.root });
      const seen = new Map<string, number>();
      const note = (outcome: string): void => void seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      const names = new Set<string>();
      const until = Date.now() + lasts;
      const isSwapSeen = (): boolean => seen.has("inside") && seen.has("permission_denied");
      let attempts = 0;
      const attempt = async (): Promise<void> => {
        while (Date.now() < until || attempts < leastAttempts || !isSwapSeen()) {
          for (let n = 0; n < 200; n++, attempts++)
            note(await read("folder/file.txt").catch((error: SluiceError) => error.code));
          for (const { key } of (await lister.list()).objects) names.add(key);
        }
      };
      await Promise.all(Array.from({ length: 8 }, attempt));
      expect(seen.get("inside")).toBeGreaterThan(0);
      // the way led outside this often, and was noticed
      expect(seen.get("permission_denied")).toBeGreaterThan(0);
      expect([...seen.keys()]).not.toContain(secret);
      expect([...names]).not.toContain("folder/outside.txt");
      console.info(`symlink race: ${attempts} attempts`, Object.fromEntries(seen));
      expect(tree.countOpen().files).toBe(0);
    },
  );

  test.runIf(process.platform === "linux")(
    "code that checks first and opens then loses",
    { tags: "slow" },
    async () => {
      await using tree = await createSwappedTree();
      const naive: Read = async (key) => {
        const path = await realpath(join(tree.root, key));
        if (!path.startsWith(`${tree.root}/`)) throw new Error("outside");
        const file = await open(join(tree.root, key), constants.O_RDONLY | constants.O_NOFOLLOW);
        return file.readFile("utf8").finally(() => void file.close());
      };
      const until = Date.now() + 15_000;
      let escaped = false;
      while (!escaped && Date.now() < until)
        escaped = (await naive("folder/file.txt").catch(() => "")) === secret;
      expect(escaped).toBe(true);
    },
  );
});

/** A tree whose `folder` a thread keeps swapping for a link to the outside and back. */
async function createSwappedTree(): Promise<TemporaryTree> {
  const tree = await createHostileTree();
  await tree.put("folder/file.txt", "inside");
  await writeFile(`${tree.root}-secret/file.txt`, secret);
  await writeFile(`${tree.root}-secret/outside.txt`, secret);
  await symlink(`${tree.root}-secret`, join(tree.root, ".link"));
  const swapper = new Worker(
    `const { renameSync } = require("node:fs");
     const at = (name) => require("node:worker_threads").workerData + "/" + name;
     for (;;) {
       renameSync(at("folder"), at(".real"));
       renameSync(at(".link"), at("folder"));
       renameSync(at("folder"), at(".link"));
       renameSync(at(".real"), at("folder"));
     }`,
    { eval: true, workerData: tree.root },
  );
  return {
    ...tree,
    async [Symbol.asyncDispose]() {
      await swapper.terminate();
      await tree[Symbol.asyncDispose]();
    },
  };
}
