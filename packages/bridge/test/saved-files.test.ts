import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { callTool, handWritten, hostOf, makeFolders, type Folders } from "./filing.ts";

const bytes = Buffer.alloc(1_000, "0123456789");

/** A server whose links and resources have `bytes`; `/more` has them twice and tells no length. */
async function server(): Promise<URL> {
  return handWritten(
    ({ method, params }) =>
      method === "resources/read"
        ? { result: { contents: [{ uri: params["uri"], blob: bytes.toString("base64") }] } }
        : undefined,
    ({ url }, response) => {
      if (url === "/more") {
        response.write(bytes);
        setTimeout(() => response.end(bytes), 20);
      } else {
        // times of whole seconds can be set again
        const headers = { "last-modified": "Mon, 02 Nov 2026 10:00:00 GMT", etag: '"1"' };
        response.writeHead(200, { ...headers, "content-length": bytes.length }).end(bytes);
      }
    },
  );
}

const stateOf = ({ save }: Folders): string => join(dirname(save), "state");

/** Another bridge of the same user, as another process is. */
function bridgeOf(url: URL, folders: Folders, options: Parameters<typeof hostOf>[1] = {}) {
  return hostOf(url, { saveTo: folders.save, stateFolder: stateOf(folders), ...options });
}

async function saveAs(client: Client, url: URL, path: string, uri = new URL("/a", url).href) {
  return callTool(client, "save_resource", { uri, path });
}

/** Files of `list_saved`, relative to the folder. */
async function listed(client: Client, folders: Folders, args = {}): Promise<string[]> {
  const { facts } = await callTool(client, "list_saved", args);
  return (facts["files"] as { path: string }[]).map(({ path }) =>
    path.slice(folders.save.length + 1),
  );
}

/** Makes records and files of them look older. */
function age(folders: Folders, days: number): void {
  const root = join(stateOf(folders), "saved");
  const [folder] = readdirSync(root) as [string];
  for (const name of readdirSync(join(root, folder))) {
    const path = join(root, folder, name);
    const record = JSON.parse(readFileSync(path, "utf8")) as { savedMs: number };
    const savedMs = record.savedMs - days * 86_400_000;
    unlinkSync(path);
    const older = String(savedMs).padStart(15, "0") + name.slice(15);
    writeFileSync(join(root, folder, older), JSON.stringify({ ...record, savedMs }));
  }
}

test("files that earlier bridges saved are listed page by page, the newest first", async () => {
  const folders = makeFolders();
  const url = await server();
  const first = await bridgeOf(url, folders);
  for (const name of ["a", "b", "c"]) {
    await saveAs(first, url, `in/${name}.bin`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const second = await bridgeOf(url, folders);
  await saveAs(second, url, "d.bin", "x://by/read");
  const third = await bridgeOf(url, folders);
  expect(await listed(third, folders)).toEqual(["d.bin", "in/c.bin", "in/b.bin", "in/a.bin"]);
  const page = await callTool(third, "list_saved", { limit: 3 });
  expect(page.text).toContain("1 more");
  const cursor = page.facts["next_cursor"];
  expect(await listed(third, folders, { cursor })).toEqual(["in/a.bin"]);
  expect(String(cursor).length).toBeLessThan(80);
  expect((await callTool(third, "list_saved", { cursor: "made up" })).isError).toBe(true);
  expect(page.facts["files"]).toMatchObject([
    { kind: "saved", uri: "x://by/read", size: 1_000 },
    {},
    {},
  ]);
  expect((await callTool(third, "list_saved", { limit: 0 })).isError).toBe(true);
});

test("without a folder for state a bridge knows what it saved itself", async () => {
  const folders = makeFolders();
  const url = await server();
  const first = await bridgeOf(url, folders, { stateFolder: undefined });
  await saveAs(first, url, "a.bin");
  expect(await listed(first, folders)).toEqual(["a.bin"]);
  const second = await bridgeOf(url, folders, { stateFolder: undefined });
  expect(await listed(second, folders)).toEqual([]);
});

test("files that are gone are listed no more, changed ones as the user's", async () => {
  const folders = makeFolders();
  const url = await server();
  const first = await bridgeOf(url, folders);
  for (const name of ["gone.bin", "changed.bin"]) await saveAs(first, url, name);
  unlinkSync(join(folders.save, "gone.bin"));
  writeFileSync(join(folders.save, "changed.bin"), "mine");
  const { facts } = await callTool(await bridgeOf(url, folders), "list_saved");
  expect(facts["files"]).toMatchObject([
    { path: join(folders.save, "changed.bin"), changed: true },
  ]);
});

for (const [way, uri] of [
  ["a link", undefined],
  ["a read", "x://by/read"],
] as const)
  test(`the sum counts files of earlier bridges; above it ${way} fails and says what to delete`, async () => {
    const folders = makeFolders();
    const url = await server();
    await saveAs(await bridgeOf(url, folders), url, "a.bin");
    const client = await bridgeOf(url, folders, { maxTotalBytes: 2_500 });
    expect((await saveAs(client, url, "b.bin", uri)).isError).toBe(false);
    const full = await saveAs(client, url, "c.bin", uri);
    expect(full.isError).toBe(true);
    expect(full.text).toMatch(/2500 bytes together.*500 are free.*needs 1000.*[ab]\.bin/s);
    expect(readdirSync(folders.save).toSorted()).toEqual(["a.bin", "b.bin", "spooled"]);
    // what the user deletes or changes counts no more
    unlinkSync(join(folders.save, "a.bin"));
    expect((await saveAs(client, url, "c.bin", uri)).isError).toBe(false);
  });

test("saves that begin together do not share the room, in one bridge or in two", async () => {
  const folders = makeFolders();
  const url = await server();
  const bridges = await Promise.all(
    [1, 2].map(() => bridgeOf(url, folders, { maxTotalBytes: 2_500 })),
  );
  const saves = Array.from({ length: 12 }, (_, at) => saveAs(bridges[at % 2]!, url, `${at}.bin`));
  const said = await Promise.all(saves);
  const saved = readdirSync(folders.save).filter((name) => name.endsWith(".bin"));
  expect(saved.length).toBeLessThanOrEqual(2);
  expect(said.filter(({ isError }) => !isError)).toHaveLength(saved.length);
});

test("files that cannot be looked at for a while are listed again afterwards", async () => {
  const folders = makeFolders();
  const url = await server();
  const client = await bridgeOf(url, folders);
  await saveAs(client, url, "in/a.bin");
  // a link to itself fails as a disk that is away does, but not with ENOENT
  renameSync(join(folders.save, "in"), join(folders.outside, "in"));
  symlinkSync("in", join(folders.save, "in"));
  expect(await listed(client, folders)).toEqual([]);
  unlinkSync(join(folders.save, "in"));
  renameSync(join(folders.outside, "in"), join(folders.save, "in"));
  expect(await listed(client, folders)).toEqual(["in/a.bin"]);
});

test("a body of unknown length stops where the sum has no room", async () => {
  const folders = makeFolders();
  const url = await server();
  const client = await bridgeOf(url, folders, { maxTotalBytes: 1_500 });
  const said = await saveAs(client, url, "a.bin", new URL("/more", url).href);
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("--max-total") });
  expect(readdirSync(folders.save)).toEqual(["spooled"]);
});

/** Ends once everyone waits. */
function meeting(count: number): () => Promise<void> {
  let waiting = 0;
  let open: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return () => {
    if (++waiting === count) open();
    return opened;
  };
}

test("bodies of unknown length that come at the same time share the room, in one bridge or in two", async () => {
  const folders = makeFolders();
  const all = meeting(6);
  const url = await handWritten(
    () => undefined,
    (_request, response) => {
      response.write(bytes);
      void all().then(() => response.end(Buffer.alloc(19_000)));
    },
  );
  const bridges = await Promise.all(
    [1, 2].map(() => bridgeOf(url, folders, { maxTotalBytes: 60_000 })),
  );
  const saves = Array.from({ length: 6 }, (_, at) => saveAs(bridges[at % 2]!, url, `${at}.bin`));
  const said = await Promise.all(saves);
  const sizes = readdirSync(folders.save)
    .filter((name) => name.endsWith(".bin"))
    .map((name) => statSync(join(folders.save, name)).size);
  expect(sizes.length).toBeLessThanOrEqual(3);
  expect(said.filter(({ isError }) => !isError)).toHaveLength(sizes.length);
  for (const { text } of said.filter(({ isError }) => isError))
    expect(text).toContain("--max-total");
  // what failed gave its room back
  expect(readdirSync(join(stateOf(folders), "saved"), { recursive: true }).join()).not.toContain(
    ".part",
  );
});

/** A server with a file of 1,000 bytes and a tool that gives 800, each of which waits in its middle. */
async function halting() {
  const gone = { file: meeting(2), result: meeting(2) };
  const url = await handWritten(
    async ({ method, id }, response) => {
      if (method === "tools/list") return { result: { tools: [] } };
      if (method !== "tools/call") return undefined;
      response.writeHead(200, { "content-type": "application/json" });
      const result = { content: [{ type: "text", text: "x".repeat(800) }] };
      const answer = JSON.stringify({ jsonrpc: "2.0", id, result });
      response.write(answer.slice(0, 700));
      await gone.result();
      response.end(answer.slice(700));
      return undefined;
    },
    (_request, response) => {
      response.writeHead(200, { "content-length": bytes.length });
      response.write(bytes.subarray(0, 500));
      void gone.file().then(() => response.end(bytes.subarray(500)));
    },
  );
  return { url, gone };
}

/** Bytes of files under way. */
function reservedBytes(folders: Folders): number {
  const root = join(stateOf(folders), "saved");
  const names = readdirSync(root, { recursive: true }) as string[];
  const reservations = names.filter((name) => /[/\\]\.[0-9a-f]{32}\.part$/.test(name));
  return reservations.reduce((sum, name) => sum + Number(readFileSync(join(root, name))), 0);
}

const bounded = { maxTotalBytes: 1_500, inlineBytes: 100 };

test("a save under way leaves less room for a large result, and the other way round", async () => {
  for (const [first, second] of [
    ["file", "result"],
    ["result", "file"],
  ] as const) {
    const folders = makeFolders();
    const { url, gone } = await halting();
    const client = await bridgeOf(url, folders, bounded);
    const takes = {
      file: () => saveAs(client, url, "a.bin"),
      result: () => callTool(client, "large"),
    };
    const running = takes[first]();
    await expect.poll(() => reservedBytes(folders)).toBeGreaterThan(500);
    void gone[second]();
    void gone[second]();
    const refused = await takes[second]().catch((error: unknown) => ({ text: String(error) }));
    expect(refused.text).toContain("1500 bytes together");
    void gone[first]();
    expect(await running).toMatchObject({ isError: false });
  }
});

test("saved files leave less room for large results", async () => {
  const folders = makeFolders();
  const url = await handWritten(
    ({ method }) =>
      method === "tools/call"
        ? { result: { content: [{ type: "text", text: "x".repeat(800) }] } }
        : { result: { tools: [] } },
    (_request, response) => void response.writeHead(200, { "content-length": 1_000 }).end(bytes),
  );
  const options = { maxTotalBytes: 1_500, inlineBytes: 100 };
  await saveAs(await bridgeOf(url, folders, options), url, "a.bin");
  const client = await bridgeOf(url, folders, options);
  await expect(callTool(client, "large")).rejects.toThrow("1500 bytes together");
  expect(readdirSync(join(folders.save, "spooled"))).toEqual([]);
});

test("saves under way count, also those of other processes, and those of dead ones do not", async () => {
  const folders = makeFolders();
  const url = await server();
  await saveAs(await bridgeOf(url, folders), url, "a.bin");
  const root = join(stateOf(folders), "saved");
  const folder = join(root, readdirSync(root)[0]!);
  const tag = createHash("sha256").update(hostname()).digest("hex");
  const reservation = (pid: number): string =>
    `.${tag.slice(0, 4)}${pid.toString(16).padStart(8, "0")}${randomBytes(10).toString("hex")}.part`;
  writeFileSync(join(folder, reservation(process.ppid)), "1000");
  const client = await bridgeOf(url, folders, { maxTotalBytes: 2_500 });
  expect((await saveAs(client, url, "b.bin")).text).toContain("500 are free");
  for (const name of readdirSync(folder))
    if (name.endsWith(".part"))
      renameSync(join(folder, name), join(folder, reservation(0x7f_ff_ff)));
  expect((await saveAs(client, url, "b.bin")).isError).toBe(false);
});

test("a reservation of another machine counts for a day, even if that has another name by now", async () => {
  const folders = makeFolders();
  const url = await server();
  await saveAs(await bridgeOf(url, folders), url, "a.bin");
  const root = join(stateOf(folders), "saved");
  const left = join(root, readdirSync(root)[0]!, `.0000${"0".repeat(28)}.part`);
  writeFileSync(left, "1000");
  const client = await bridgeOf(url, folders, { maxTotalBytes: 2_500 });
  expect((await saveAs(client, url, "b.bin")).text).toContain("500 are free");
  const dayBefore = Date.now() / 1_000 - 86_401;
  utimesSync(left, dayBefore, dayBefore);
  expect((await saveAs(client, url, "b.bin")).isError).toBe(false);
  expect(existsSync(left)).toBe(false);
});

test("no age is set: a saved file is never removed", async () => {
  const folders = makeFolders();
  const url = await server();
  await saveAs(await bridgeOf(url, folders), url, "a.bin");
  age(folders, 10_000);
  expect(await listed(await bridgeOf(url, folders), folders)).toEqual(["a.bin"]);
  expect(existsSync(join(folders.save, "a.bin"))).toBe(true);
});

test("only unmodified files are removed after the age", async () => {
  const folders = makeFolders();
  const url = await server();
  const client = await bridgeOf(url, folders);
  const names = [
    "old.bin",
    "edited.bin",
    "touched.bin",
    "same-time.bin",
    "link.bin",
    "in/swapped.bin",
  ];
  for (const name of names) await saveAs(client, url, name);
  age(folders, 31);
  await saveAs(client, url, "new.bin");
  const path = (name: string): string => join(folders.save, name);
  writeFileSync(path("edited.bin"), "mine");
  utimesSync(path("touched.bin"), 1, 1);
  const { atime, mtime } = statSync(path("same-time.bin"));
  writeFileSync(path("same-time.bin"), "x".repeat(1_000));
  utimesSync(path("same-time.bin"), atime, mtime);
  renameSync(path("link.bin"), join(folders.outside, "link.bin"));
  symlinkSync(join(folders.outside, "link.bin"), path("link.bin"));
  renameSync(path("in"), join(folders.outside, "in"));
  symlinkSync(join(folders.outside, "in"), path("in"));
  writeFileSync(path("users.bin"), "mine");

  await bridgeOf(url, folders, { maxSavedAgeMs: 30 * 86_400_000 });
  expect(existsSync(path("old.bin"))).toBe(false);
  const kept = ["edited.bin", "touched.bin", "same-time.bin", "link.bin", "new.bin", "users.bin"];
  for (const name of [...kept, "in/swapped.bin"]) expect(existsSync(path(name)), name).toBe(true);
});

test("a state folder that cannot be made does not stop the bridge", async () => {
  const folders = makeFolders();
  const url = await server();
  writeFileSync(stateOf(folders), "a file");
  const client = await bridgeOf(url, folders);
  expect((await saveAs(client, url, "a.bin")).isError).toBe(false);
  expect(await listed(client, folders)).toEqual(["a.bin"]);
});

test("the folder for large results takes no saves", async () => {
  const folders = makeFolders();
  const url = await server();
  const client = await bridgeOf(url, folders);
  for (const path of ["spooled/a-01234567.bin", "spooled", "spooled/in/a.bin"])
    expect((await saveAs(client, url, path)).isError).toBe(true);
  expect(readdirSync(folders.save, { recursive: true })).toEqual(["spooled"]);
});
