import { execFileSync } from "node:child_process";
import { chmod, mkdir, open, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Fixture } from "@sluice/storage/conformance";
import { createFsBackend } from "@sluice/storage-fs";
import { createTemporaryTree, racyMs } from "./temporary-tree.ts";

/** A folder on disk, for the conformance kit. */
export async function createFixture(): Promise<Fixture> {
  const tree = await createTemporaryTree();
  const { root, put } = tree;
  await symlink(".", join(root, "via"));
  const backends = [createFsBackend({ root, racyMs, writable: true })];
  const pathOf = (key: string): string => join(root, key);
  const [backend] = backends;
  if (backend === undefined) throw new Error("unreachable");
  return {
    // #region hooks
    backend,
    put,
    remove: (key) => rm(pathOf(key)),
    // #endregion
    async putLarge(key, size, tail) {
      await put(key, "");
      const file = await open(pathOf(key), "r+");
      await file.write(tail, 0, tail.byteLength, size - tail.byteLength);
      await file.close();
      await wait(racyMs + 2);
    },
    // #region overwrite
    async overwrite(key, content) {
      const file = await open(pathOf(key), "r+");
      await file.write(content, 0, content.byteLength, 0);
      await file.close();
      await wait(racyMs + 2);
    },
    async touch(key) {
      await chmod(pathOf(key), 0o600);
      await wait(racyMs + 2);
    },
    // #endregion
    async putFolder() {
      await mkdir(pathOf("a-folder"));
      return "a-folder";
    },
    async putClutter() {
      await put(".hidden", "hidden");
      await put(".git/config", "hidden");
      await put("folder/.sluice-upload.tmp", "under way");
      await put("back\\slash", "no key");
      await put("new\nline", "no key");
      await mkdir(pathOf("empty/folder"), { recursive: true });
      await symlink(tree.path, pathOf("link-to-folder"));
      await symlink("a.txt", pathOf("link-to-file"));
      execFileSync("mkfifo", [pathOf("pipe")]);
      await writeFile(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x66, 0xff])]), "latin");
      await mkdir(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x64, 0xfe])]));
    },
    alias: (key) => `via/${key}`,
    async putOutside() {
      await mkdir(`${root}-secret`);
      await writeFile(`${root}-secret/x.txt`, "outside");
      await writeFile(join(tree.path, "x.txt"), "outside");
      await symlink("../x.txt", pathOf("link.txt"));
      await symlink("..", pathOf("up"));
      await symlink(`${root}-secret`, pathOf("sibling"));
      return {
        sibling: [`../${basename(root)}-secret/x.txt`, "sibling/x.txt", "-secret/x.txt"],
        escapes: [
          "../x.txt",
          "link.txt",
          "up/x.txt",
          "up/data-secret/x.txt",
          `${tree.path}/x.txt`,
          "%2e%2e/x.txt",
          "..\\x.txt",
          "proc/self/root/etc/passwd",
        ],
      };
    },
    async reopen() {
      const another = createFsBackend({ root, racyMs, writable: true });
      backends.push(another);
      return another;
    },
    why: {
      putTyped: "files have no type",
      faults: "no network lies in between",
    },
    faults: { deny: (key) => deny(pathOf(key)) },
    // directories are left out: walks between two pages keep theirs open for a while
    countHandles: () => tree.countOpen().files,
    async countLeftovers() {
      const names = await readdir(root, { recursive: true });
      return names.filter((name) => basename(name).startsWith(".sluice-")).length;
    },
    secrets: [tree.path],
    async dispose() {
      for (const each of backends) await each.close?.();
      await tree[Symbol.asyncDispose]();
    },
  };
}

/** A mode keeps everybody out but the superuser; a link that is not followed keeps out everybody. */
async function deny(path: string): Promise<void> {
  if (process.getuid?.() !== 0) return chmod(path, 0);
  await rm(path);
  await symlink("elsewhere", path);
}
