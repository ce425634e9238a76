import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { checkBackend } from "@sluice/storage/conformance";
import { createFsBackend } from "@sluice/storage-fs";
import { expect, test, vi } from "vitest";
import { createRoot } from "../src/root/root.ts";
import { createFixture } from "./fixture.ts";
import { createTemporaryTree } from "./temporary-tree.ts";

// as on platforms where a descriptor cannot be asked for its name
vi.mock("node:fs", async (importOriginal) => ({
  ...(await importOriginal<typeof import("node:fs")>()),
  readlinkSync: () => {
    throw new Error("there is no /proc here");
  },
}));

// a disk that others write to answers late
vi.setConfig({ testTimeout: 60_000 });

const groups = ["describe", "open", "file", "key", "list", "write", "remove"];

test(
  `without names of descriptors the rules are kept as well: ${groups.join(", ")}`,
  { tags: "slow" },
  async () => {
    await using tree = await createTemporaryTree();
    expect(createRoot(tree.root, false).namesDescriptors).toBe(false);
    const findings = await checkBackend(createFixture, { only: groups, deadlineMs: 50_000 });
    expect(findings.filter(({ outcome }) => outcome === "broken")).toEqual([]);
    expect(findings.filter(({ outcome }) => outcome === "kept").length).toBeGreaterThan(40);
  },
);

test("without names of descriptors nothing is made or removed behind a link", async () => {
  await using tree = await createTemporaryTree();
  await mkdir(`${tree.root}-secret`);
  await symlink(`${tree.root}-secret`, join(tree.root, "way"));
  await writeFile(`${tree.root}-secret/kept.txt`, "kept");
  const backend = createFsBackend({ root: tree.root, writable: true });
  for (const call of [
    () => backend.write?.("way/folder/file.txt"),
    () => backend.remove?.("way/kept.txt"),
  ])
    await expect(call()).rejects.toMatchObject({ code: "permission_denied" });
  expect(await readdir(`${tree.root}-secret`)).toEqual(["kept.txt"]);
});
