import { expect, test } from "vitest";
import type { StorageBackend } from "@sluice/storage";
import { createGraphBackend } from "@sluice/storage-graph";
import { startEmulated } from "./emulated.ts";

async function listKeys(backend: StorageBackend, prefix = "", limit = 1000): Promise<string[]> {
  const keys: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await backend.list({ prefix, limit, ...(cursor && { cursor }) });
    keys.push(...page.objects.map(({ key }) => key));
    ({ cursor } = page);
  } while (cursor !== undefined);
  return keys;
}

const names = Array.from({ length: 25 }, (_, n) => `f${String(n).padStart(2, "0")}.txt`);

test("a page that leads to itself does not list for ever", async () => {
  await using graph = await startEmulated();
  const again = `${graph.emulator.origins.graph}/v1.0/drives/x/items/y/children?again`;
  const json = { value: [], "@odata.nextLink": again };
  graph.emulator.fault({ on: /children/, json, times: 50 });
  await expect(graph.backend.list()).rejects.toMatchObject({ code: "protocol" });
  expect(graph.sent("graph").filter((line) => line.includes("children"))).toHaveLength(2);
});

test("an item whose name cannot be a key is counted, where the prefix reaches it", async () => {
  await using graph = await startEmulated();
  for (const name of ["a.txt", " leading.txt", "Docs/ leading.txt", "Docs/b.txt"])
    graph.drive.put(name, name);
  expect((await graph.backend.list()).unlisted).toEqual({ reserved: 2 });
  expect((await graph.backend.list({ prefix: "Docs/" })).unlisted).toEqual({ reserved: 1 });
  expect((await graph.backend.list({ prefix: "Docs/b" })).unlisted).toBeUndefined();
});

test("G18: links to further pages are followed as they came", async () => {
  await using graph = await startEmulated({}, { pageSize: 10 });
  for (const name of names) graph.drive.put(name, name);
  // the emulator refuses a link that is not byte for byte its own
  expect(await listKeys(graph.backend)).toEqual(names);
  expect(graph.sent("graph").filter((line) => line.includes("$skiptoken="))).toHaveLength(2);
});

test("G18: a link to another origin is untrusted, and the bearer stays here", async () => {
  await using graph = await startEmulated();
  for (const link of [
    `${graph.emulator.origins.download}/steal`,
    `${graph.emulator.origins.graph}.example/steal`,
    `${graph.emulator.origins.graph}@example.com/steal`,
  ]) {
    graph.emulator.fault({ on: /children/, json: { value: [], "@odata.nextLink": link } });
    await expect(graph.backend.list()).rejects.toMatchObject({ code: "untrusted" });
  }
  expect(graph.sent("download")).toEqual([]);
});

test("G19: an empty page with a link is not the end", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.txt", "a");
  const link = `${graph.emulator.origins.graph}/v1.0/drives/${encodeURIComponent(graph.drive.id)}/root/children?$top=7`;
  graph.emulator.fault({ on: /children/, json: { value: [], "@odata.nextLink": link } });
  expect(await listKeys(graph.backend)).toEqual(["a.txt"]);
});

test("a walk that is resumed elsewhere continues where it stood, in folders within folders", async () => {
  await using graph = await startEmulated({}, { pageSize: 3 });
  const keys = ["a.txt", "b/1.txt", "b/c/1.txt", "b/c/2.txt", "b/d/1.txt", "b/e.txt", "z.txt"];
  for (const key of keys) graph.drive.put(key, key);
  const visited: string[] = [];
  let cursor: string | undefined;
  do {
    // every page from another process
    const backend = createGraphBackend({
      credential: graph.emulator.credential,
      driveId: graph.drive.id,
      baseUrl: graph.emulator.origins.graph,
    });
    const page = await backend.list({ limit: 2, ...(cursor && { cursor }) });
    visited.push(...page.objects.map(({ key }) => key));
    ({ cursor } = page);
    await backend.close?.();
  } while (cursor !== undefined);
  expect(visited.toSorted()).toEqual(keys);
});

test("a walk whose place is gone walks the folder again: twice is better than never", async () => {
  await using graph = await startEmulated({}, { pageSize: 3 });
  for (const name of names.slice(0, 6)) graph.drive.put(name, name);
  const { objects, cursor = "" } = await graph.backend.list({ limit: 4 });
  graph.drive.remove(objects.at(-1)?.key ?? "");
  const again = createGraphBackend({
    credential: graph.emulator.credential,
    driveId: graph.drive.id,
    baseUrl: graph.emulator.origins.graph,
  });
  const rest = await again.list({ cursor });
  expect(rest.objects.map(({ key }) => key)).toEqual([...names.slice(0, 3), ...names.slice(4, 6)]);
  await again.close?.();
});

test("one page costs a bounded number of requests, and the walk still ends", async () => {
  await using graph = await startEmulated();
  for (let n = 0; n < 40; n++) graph.drive.putFolder(`empty-${n}`);
  graph.drive.put("last.txt", "x");
  const first = await graph.backend.list();
  expect(first.cursor).toBeDefined();
  expect(graph.emulator.requests.length).toBeLessThan(20);
  expect(await listKeys(graph.backend)).toEqual(["last.txt"]);
});

test("a prefix asks only for its folder, and knows case although the drive does not", async () => {
  await using graph = await startEmulated();
  graph.drive.put("Docs/Deep/a.txt", "a");
  graph.drive.put("Docs/Other/b.txt", "b");
  graph.drive.put("elsewhere/c.txt", "c");
  expect(await listKeys(graph.backend, "Docs/De")).toEqual(["Docs/Deep/a.txt"]);
  expect(graph.sent("graph").join()).not.toContain("elsewhere");
  const folders = graph.sent("graph").filter((line) => line.includes("/children"));
  expect(folders).toHaveLength(2);
  for (const prefix of ["docs/", "no/", "a:b/", "../"])
    expect(await listKeys(graph.backend, prefix)).toEqual([]);
});

test("a cursor belongs to its root and its prefix", async () => {
  await using graph = await startEmulated();
  for (const name of names) graph.drive.put(`a/${name}`, name);
  const { cursor = "" } = await graph.backend.list({ prefix: "a/", limit: 2 });
  await expect(graph.backend.list({ prefix: "", cursor })).rejects.toMatchObject({
    code: "invalid_argument",
  });
});

test("a root that is not there is not_found, not an empty store", async () => {
  await using graph = await startEmulated({ root: { path: "no/such/folder" } });
  await expect(graph.backend.list()).rejects.toMatchObject({ code: "not_found" });
});
