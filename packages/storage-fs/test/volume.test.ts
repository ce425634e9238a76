import { mkdir, realpath, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { SluiceError } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { describe, expect, test, vi } from "vitest";
import { createTemporaryTree, racyMs, readAll, type TemporaryTree } from "./temporary-tree.ts";
import { mountVolume } from "./volume.ts";

// a disk that others write to answers late
vi.setConfig({ testTimeout: 60_000 });

const first = "..2024_01_31_09_30_00.1234567890";
const second = "..2024_02_01_09_30_00.987654321";
const third = "..2024_02_02";
const secret = "outside of the root";

async function keysOf(backend: StorageBackend, prefix = ""): Promise<string[]> {
  return (await backend.list({ prefix })).objects.map(({ key }) => key).toSorted();
}

async function textOf(backend: StorageBackend, key: string): Promise<string> {
  return (await readAll((await backend.open(key)).body)).toString();
}

describe("a volume as Kubernetes mounts it", () => {
  test.each([
    ["is the root", "", false],
    ["is a folder in the root", "etc/config", false],
    ["is the root, and dotfiles are shown", "", true],
  ])("is served under the names of its links if it %s", async (_, folder, dotfiles) => {
    await using tree = await createTemporaryTree();
    const at = join(tree.root, folder);
    await mkdir(at, { recursive: true });
    await mountVolume(at, first, {
      "app.conf": "a=1",
      "certs/tls.crt": "pem",
      "certs/deep/x": "x",
    });
    const backend = createFsBackend({ root: tree.root, racyMs, dotfiles });
    const start = folder === "" ? "" : `${folder}/`;
    const keys = ["app.conf", "certs/deep/x", "certs/tls.crt"].map((name) => start + name);
    const page = await backend.list();
    expect(page.unlisted).toBeUndefined();
    expect(page.objects.map(({ key }) => key).toSorted()).toEqual(keys);
    expect(await keysOf(backend, `${start}certs/`)).toEqual(keys.slice(1));
    expect(await keysOf(backend, `${start}certs/deep/`)).toEqual(keys.slice(1, 2));
    for (const info of page.objects) {
      expect(await backend.describe(info.key)).toEqual(info);
      const opened = await backend.open(info.key);
      expect(opened.info).toEqual(info);
      // what another server sends for us has no link on the way
      expect(opened.file?.path).toBe(await realpath(join(tree.root, info.key)));
      await opened.body.cancel();
    }
    for (let n = 0; n < 3; n++) expect(await textOf(backend, `${start}app.conf`)).toBe("a=1");
    for (const name of ["..data/app.conf", `${first}/app.conf`])
      await expect(backend.open(start + name)).rejects.toMatchObject({ code: "not_found" });
    await backend.close?.();
    expect(tree.countOpen()).toEqual({ files: 0, directories: 0 });
  });

  test("gives the new bytes after an update, and a body in progress the old ones", async () => {
    await using tree = await createTemporaryTree();
    await mountVolume(tree.root, first, { "app.conf": "old", "certs/tls.crt": "old" });
    const backend = createFsBackend({ root: tree.root, racyMs });
    const before = await backend.describe("app.conf");
    const opened = await backend.open("app.conf");
    const page = await backend.list({ limit: 1 });
    await mountVolume(tree.root, second, { "app.conf": "new", "certs/tls.crt": "new" }, first);
    expect((await readAll(opened.body)).toString()).toBe("old");
    expect(await textOf(backend, "app.conf")).toBe("new");
    expect(await textOf(backend, "certs/tls.crt")).toBe("new");
    expect((await backend.describe("app.conf")).etag).not.toBe(before.etag);
    await backend.list({ cursor: page.cursor ?? "" });
    expect(await keysOf(backend)).toEqual(["app.conf", "certs/tls.crt"]);
    await backend.close?.();
  });

  test("tells a watch about each update, in folders as well", async () => {
    await using tree = await createTemporaryTree();
    const files = { "app.conf": "1", "certs/tls.crt": "1" };
    await mountVolume(tree.root, first, files);
    const caller = new AbortController();
    const backend = createFsBackend({ root: tree.root, racyMs });
    const batches = backend.watch?.({ signal: caller.signal })[Symbol.asyncIterator]();
    expect((await batches?.next())?.value).toEqual({});
    for (const [version, old] of [
      [second, first],
      [third, second],
    ] as const) {
      await mountVolume(tree.root, version, files, old);
      const changed = new Set<string>();
      while (changed.size < 2) {
        const step = await batches?.next();
        for (const key of step?.value?.changed ?? []) changed.add(key);
      }
      expect([...changed].toSorted()).toEqual(["app.conf", "certs/tls.crt"]);
      // what of an update is still to come
      await wait(200);
    }
    caller.abort();
  });
});

/** Links that look like those of a volume, and lead elsewhere. */
const others: readonly (readonly [string, (root: string) => Promise<void>])[] = [
  [
    "to another name",
    async (root) => {
      await mountVolume(root, first, { other: "hidden" });
      await symlink("..data/other", join(root, "link"));
    },
  ],
  [
    "past the root",
    async (root) => {
      await symlink("../data-secret", join(root, "..data"));
      await symlink("..data/link", join(root, "link"));
    },
  ],
  [
    "to a file of the volume that is a link past the root",
    async (root) => {
      await mkdir(join(root, first));
      await symlink("../../data-secret/link", join(root, first, "link"));
      await symlink(first, join(root, "..data"));
      await symlink("..data/link", join(root, "link"));
    },
  ],
  [
    "to a hidden folder",
    async (root) => {
      await mkdir(join(root, ".git"));
      await writeFile(join(root, ".git/link"), "hidden");
      await symlink(".git", join(root, "..data"));
      await symlink("..data/link", join(root, "link"));
    },
  ],
  [
    "to a visible folder, whose files have their own names",
    async (root) => {
      await mkdir(join(root, "seen"));
      await writeFile(join(root, "seen/link"), "seen");
      await symlink("seen", join(root, "..data"));
      await symlink("..data/link", join(root, "link"));
    },
  ],
  [
    "to a version without ..data",
    async (root) => {
      await mkdir(join(root, first));
      await writeFile(join(root, first, "link"), "hidden");
      await symlink(`${first}/link`, join(root, "link"));
    },
  ],
  ["to nothing", (root) => symlink("..data/link", join(root, "link"))],
];

test.each(others)("a link %s is neither listed nor opened, and counted", async (_, make) => {
  await using tree = await createTemporaryTree();
  await mkdir(`${tree.root}-secret`);
  await writeFile(`${tree.root}-secret/link`, secret);
  await make(tree.root);
  const backend = createFsBackend({ root: tree.root });
  const page = await backend.list();
  expect(page.objects.map(({ key }) => key)).not.toContain("link");
  expect(page.unlisted).toEqual({ link: 1 });
  const error = await backend.open("link").catch((fault: unknown) => fault);
  expect(SluiceError.is(error) && error.code).toMatch(/^(permission_denied|not_found)$/);
  expect(tree.countOpen().files).toBe(0);
});

describe("while another process replaces ..data by a link past the root", () => {
  const leastAttempts = 4_000;

  test.runIf(process.platform === "linux")(
    "no byte and no fact of the outside comes",
    { tags: "slow" },
    async () => {
      await using tree = await createSwappedVolume();
      const backend = createFsBackend({ root: tree.root });
      const seen = new Map<string, number>();
      const sizes = new Set<number | undefined>();
      let attempts = 0;
      const isSwapSeen = (): boolean => seen.has("inside") && seen.has("permission_denied");
      const attempt = async (): Promise<void> => {
        while (attempts < leastAttempts || !isSwapSeen()) {
          for (let n = 0; n < 50; n++, attempts++)
            for (const key of ["app.conf", "certs/tls.crt"]) {
              const outcome = await textOf(backend, key).catch((error: SluiceError) => error.code);
              seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
            }
          for (const { size } of (await backend.list()).objects) sizes.add(size);
        }
      };
      await Promise.all(Array.from({ length: 8 }, attempt));
      expect([...seen.keys()]).not.toContain(secret);
      expect([...sizes]).toEqual(["inside".length]);
      expect(tree.countOpen().files).toBe(0);
    },
  );

  test.runIf(process.platform === "linux")(
    "code that checks the link first and opens then loses",
    { tags: "slow" },
    async () => {
      await using tree = await createSwappedVolume();
      const naive = async (key: string): Promise<string> => {
        const path = await realpath(join(tree.root, key));
        if (!path.startsWith(`${tree.root}/`)) throw new Error("outside");
        return readFile(join(tree.root, key), "utf8");
      };
      const until = Date.now() + 15_000;
      let escaped = false;
      while (!escaped && Date.now() < until)
        escaped = (await naive("app.conf").catch(() => "")) === secret;
      expect(escaped).toBe(true);
    },
  );
});

/** A volume whose `..data` a thread keeps replacing by a link past the root and back. */
async function createSwappedVolume(): Promise<TemporaryTree> {
  const tree = await createTemporaryTree();
  await mountVolume(tree.root, first, { "app.conf": "inside", "certs/tls.crt": "inside" });
  await mkdir(`${tree.root}-secret/certs`, { recursive: true });
  for (const name of ["app.conf", "certs/tls.crt"])
    await writeFile(join(`${tree.root}-secret`, name), secret);
  await symlink("../data-secret", join(tree.root, "..other"));
  const swapper = new Worker(
    `const { renameSync } = require("node:fs");
     const at = (name) => require("node:worker_threads").workerData + "/" + name;
     for (;;) {
       renameSync(at("..data"), at("..kept"));
       renameSync(at("..other"), at("..data"));
       renameSync(at("..data"), at("..other"));
       renameSync(at("..kept"), at("..data"));
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
