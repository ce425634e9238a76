import { mkdir, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { racyMs } from "./temporary-tree.ts";

/**
 * Mounts files as the kubelet does for a ConfigMap, a Secret or a projected volume (`AtomicWriter`): a
 * folder with a time in its name, `..data` as a link to it, and a link for each first part of a name.
 * The next call for the same folder is an update: it replaces `..data` by rename, and removes the old
 * version.
 */
export async function mountVolume(
  folder: string,
  version: string,
  files: Readonly<Record<string, string>>,
  old?: string,
): Promise<void> {
  const inside = join(folder, version);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(inside, name)), { recursive: true });
    await writeFile(join(inside, name), content);
  }
  await symlink(version, join(folder, "..data_tmp"));
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
  for (const name of new Set(Object.keys(files).map((each) => each.split("/")[0] ?? ""))) {
    if (old !== undefined) await unlink(join(folder, name));
    await symlink(`..data/${name}`, join(folder, name));
  }
  if (old !== undefined) await rm(join(folder, old), { recursive: true });
  await wait(racyMs + 2);
}
