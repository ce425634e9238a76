import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { checkBackend } from "@sluice/storage/conformance";
import { createFsBackend } from "@sluice/storage-fs";
import { expect, test, vi } from "vitest";
import { createRoot } from "../src/root/root.ts";
import { createFixture } from "./fixture.ts";
import { createTemporaryTree, readAll } from "./temporary-tree.ts";
import { mountVolume } from "./volume.ts";

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

test("without names of descriptors a mounted volume is served, and a link out of it is not", async () => {
  await using tree = await createTemporaryTree();
  await writeFile(join(tree.path, "secret.txt"), "outside");
  await mountVolume(tree.root, "..2024_01_31", { "app.conf": "a=1", "certs/tls.crt": "pem" });
  await symlink("../../secret.txt", join(tree.root, "..2024_01_31/out"));
  await symlink("..data/out", join(tree.root, "out"));
  const backend = createFsBackend({ root: tree.root });
  const { objects, unlisted } = await backend.list();
  expect(objects.map(({ key }) => key).toSorted()).toEqual(["app.conf", "certs/tls.crt"]);
  expect(unlisted).toEqual({ link: 1 });
  for (const [key, text] of [
    ["app.conf", "a=1"],
    ["certs/tls.crt", "pem"],
  ] as const)
    expect((await readAll((await backend.open(key)).body)).toString()).toBe(text);
  await expect(backend.open("out")).rejects.toMatchObject({ code: "permission_denied" });
});

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
