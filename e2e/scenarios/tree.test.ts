import { mkdtemp, readFile, rename, rm, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { saveTree } from "@sluice/client";
import { EXTENSION_ID, treeBounds } from "@sluice/core/internal";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { sdks } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { baseUri, startSite, type Site } from "../bed/site.ts";

/** Sizes around those at which files are read ahead, streamed, and left to a call of their own. */
const sizes = [0, 1, 100, 65_536, 262_144, 262_145, 600_000, 4_194_304, 4_194_305];
const files = Object.fromEntries([
  ...sizes.map((size) => [`sizes/${size}.bin`, bytesOf(size, String(size))] as const),
  ...Array.from(
    { length: 300 },
    (_, at) => [`many/${at % 7}/${at}.txt`, bytesOf(at, "x")] as const,
  ),
]);
const wanted = Object.keys(files).map((path) => ({ uri: baseUri + path, path }));

let site: Site;
const calls: string[] = [];
beforeAll(async () => {
  site = await startSite({ files, sluice: { audit: ({ action }) => void calls.push(action) } });
});
afterAll(() => site[Symbol.asyncDispose]());

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test.each(Object.entries(sdks))(
  "a tree is the same on the other side, over one call for its small files: %s",
  async (name, connect) => {
    const client = await connect(site.url, false, {});
    onTestFinished(() => client.close());
    const folder = await newFolder();
    calls.length = 0;
    const { saved, failed } = await saveTree(client, wanted, folder);
    expect(failed).toEqual([]);
    expect(saved.map(({ path }) => path)).toEqual(wanted.map(({ path }) => join(folder, path)));
    for (const [path, content] of Object.entries(files))
      expect(content.equals(await readFile(join(folder, path))), path).toBe(true);
    const declared = client.getServerCapabilities()?.extensions?.[EXTENSION_ID];
    expect(declared).toEqual({ tree: treeBounds });
    expect(
      calls.filter((action) => action === "tree"),
      name,
    ).toHaveLength(1);
    // the large one, after its refusal among the others
    expect(calls.filter((action) => action === "download")).toHaveLength(1);
    expect(calls.filter((action) => action === "stream")).toHaveLength(wanted.length + 1);
  },
);

test("files that are replaced by shorter and longer ones, or removed, are one version each or named", async () => {
  const names = Array.from({ length: 200 }, (_, at) => `${at}.bin`);
  const old = Object.fromEntries(names.map((name) => [name, bytesOf(300_000, `old ${name}`)]));
  const changing = await startSite({ files: old });
  onTestFinished(() => changing[Symbol.asyncDispose]());
  const client = await sdks["SDK v2, modern"](changing.url, false, {});
  onTestFinished(() => client.close());
  const folder = await newFolder();
  const versions = new Map(names.map((name) => [name, [old[name]!]]));
  const stop = new AbortController();
  const change = async (): Promise<void> => {
    for (let at = 0; !stop.signal.aborted; at = (at + 37) % names.length) {
      const name = names[at]!;
      const path = join(changing.root, name);
      const next = bytesOf(300_000 + (at % 5) * 1_000 - 2_000, `new ${name} ${at}`);
      versions.get(name)!.push(next);
      if (at % 3 === 0) await unlink(path).catch(() => {});
      else {
        await writeFile(`${path}.next`, next);
        await rename(`${path}.next`, path);
      }
    }
  };
  const changed = change();
  const asked = names.map((name) => ({ uri: baseUri + name, path: name }));
  const { saved, failed } = await saveTree(client, asked, folder).finally(() => stop.abort());
  await changed;
  expect(saved.length + failed.length).toBe(names.length);
  for (const { path } of saved) {
    const content = await readFile(path);
    const known = versions.get(path.slice(folder.length + 1))!;
    expect(
      known.some((version) => version.equals(content)),
      path,
    ).toBe(true);
  }
  for (const { error } of failed) expect(error).toHaveProperty("code");
});
