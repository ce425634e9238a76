import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ListPage } from "@sluice/storage";
import { formatUnlisted } from "@sluice/storage/internal";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mountVolume } from "../../storage-fs/test/volume.ts";
import { noteUnlisted } from "../src/serve/note-unlisted.ts";
import { runHere, serveHere } from "./run-here.ts";

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-unlisted-"));
});
afterAll(() => rm(root, { recursive: true }));

test.runIf(process.platform !== "win32")(
  "serve says at its start, and ls at its end, what of a folder is in no list",
  async () => {
    const folder = join(root, "folder");
    await mkdir(folder);
    await writeFile(join(folder, "seen.txt"), "x");
    await writeFile(join(folder, "a\tb"), "x");
    await writeFile(join(folder, "a\nb"), "x");
    await writeFile(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xfc])]), "x");
    await symlink("seen.txt", join(folder, "link"));
    const line = `4 not listed: ${[
      "2 names with a tab, a newline or another control character",
      "1 name that is not UTF-8",
      "1 symbolic link",
    ].join(", ")}`;
    const served = await serveHere(folder);
    for (const args of [[], ["--json"]]) {
      const { status, stdout, stderr } = await runHere(["ls", served.url, ...args]);
      expect(status).toBe(0);
      expect(stdout.trim().split("\n")).toHaveLength(1);
      expect(sorted(stderr.trim())).toBe(sorted(line));
    }
    const { stderr } = await served.end();
    expect(stderr.split("\n").map(sorted)).toContain(sorted(`  ${line}`));
  },
);

test("neither says anything of a folder that is listed whole, such as a ConfigMap", async () => {
  const folder = join(root, "config");
  await mkdir(folder);
  await mountVolume(folder, "..2024_01_31", { "app.conf": "a=1" });
  const served = await serveHere(folder);
  const { stdout, stderr } = await runHere(["ls", served.url]);
  expect([stdout, stderr]).toEqual(["files://local/app.conf\n", ""]);
  const path = join(root, "saved.conf");
  await runHere(["get", served.url, "files://local/app.conf", "-o", path]);
  expect(await readFile(path, "utf8")).toBe("a=1");
  expect((await served.end()).stderr).not.toContain("not listed");
});

/** The order of a folder is that of its file system. */
function sorted(line: string): string {
  const [start = "", list = ""] = line.split(": ");
  return `${start}: ${list.split(", ").toSorted().join("; ")}`;
}

test("the look of serve ends with its time, and tells how far it came", async () => {
  const lines: string[] = [];
  const page: ListPage = { objects: [], cursor: "next", unlisted: { link: 1 } };
  const list = async ({ cursor, signal }: { cursor?: string; signal?: AbortSignal } = {}) => {
    if (cursor === undefined) return page;
    return new Promise<ListPage>((_, reject) =>
      signal?.addEventListener("abort", () => reject(signal.reason)),
    );
  };
  const { signal } = new AbortController();
  await noteUnlisted({ list }, (line) => lines.push(line), signal, 20);
  expect(lines).toEqual([`  ${formatUnlisted({ link: 1 })}, so far`]);
});

test("the look of serve ends with serve, without a line", async () => {
  const lines: string[] = [];
  const ending = new AbortController();
  const list = async (): Promise<ListPage> => {
    ending.abort();
    return { objects: [], unlisted: { link: 1 } };
  };
  await noteUnlisted({ list }, (line) => lines.push(line), ending.signal);
  expect(lines).toEqual([]);
});
