// `sluice get` of folders, globs and names, from our server and from one of the official SDK.
import { once } from "node:events";
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { json } from "node:stream/consumers";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import { sluice, type Run, type Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const files: Readonly<Record<string, string>> = {
  "docs/a.pdf": "a",
  "docs/My Plans/b [1].pdf": "b",
  "docs/deep/er/c.txt": "c",
  "docs/deep/a.pdf": "another a",
  "pictures/p.png": "p",
  "read-me.txt": "r",
};
const names = Object.keys(files).toSorted();
const below = (folder: string): string[] =>
  names.filter((name) => name.startsWith(folder)).map((name) => name.slice(folder.length));
let root = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-tree-"));
  await writeTree(join(root, "files"), files);
  served = await serveHere(join(root, "files"));
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

async function writeTree(folder: string, tree: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, content] of Object.entries(tree)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
}

/** Content by path, hidden files too. */
async function treeOf(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) {
      const path = join(entry.parentPath, entry.name);
      found[path.slice(folder.length + 1)] = await readFile(path, "utf8");
    }
  return found;
}

/** The same without hidden files. */
async function visibleTreeOf(folder: string): Promise<Record<string, string>> {
  const tree = Object.entries(await treeOf(folder));
  return Object.fromEntries(tree.filter(([name]) => !/(?:^|\/)\.[^/]*$/.test(name)));
}

const target = (): Promise<string> => mkdtemp(join(root, "target-"));

function get(args: readonly string[], cwd: string, url: string = served.url): Promise<Run> {
  return runHere(["get", url, ...args], { cwd });
}

test.each([
  ["a folder", ["files://local/docs/"], below("docs/")],
  ["a folder without a slash", ["files://local/docs"], below("docs/")],
  ["a folder by its path", ["docs/"], below("docs/")],
  ["a folder by its name", ["docs"], below("docs/")],
  ["a folder whose name has a space", ["docs/My Plans/"], below("docs/My Plans/")],
  ["the same, encoded", ["files://local/docs/My%20Plans/"], below("docs/My Plans/")],
  ["everything", ["**"], names],
  ["everything of a mount", ["files://local/"], names],
  ["a glob at one depth", ["files://local/docs/*.pdf"], ["a.pdf"]],
  ["a glob at every depth", ["docs/**/*.pdf"], below("docs/").filter((n) => n.endsWith(".pdf"))],
  ["a name with the signs of a glob", ["docs/My Plans/b [1].pdf"], ["b [1].pdf"]],
  ["what --include names", ["docs/", "--include", "*.txt"], ["deep/er/c.txt"]],
  ["what --exclude leaves", ["docs/", "--exclude", "deep/"], ["My Plans/b [1].pdf", "a.pdf"]],
  ["what --include names, of all", ["--include", "*.png"], ["pictures/p.png"]],
  ["two folders, one in another", ["pictures/", "docs/deep/"], ["a.pdf", "er/c.txt", "p.png"]],
  ["a folder and a URI", ["pictures/", "files://local/read-me.txt"], ["p.png", "read-me.txt"]],
])("%s keeps its tree below the output folder", async (_, args, wanted) => {
  const cwd = await target();
  const { status, stdout, stderr } = await get([...args, "-o", "out/new"], cwd);
  expect([status, stderr]).toEqual([0, expect.stringMatching(/^\d saved: .*\n$/)]);
  const got = await treeOf(join(cwd, "out/new"));
  expect(Object.keys(got).toSorted()).toEqual([...wanted].toSorted());
  const lines = stdout.trimEnd().split("\n");
  expect(lines.toSorted()).toEqual(wanted.map((name) => `out/new/${name}`).toSorted());
});

test.each([
  ["a path", "docs/a.pdf", "a"],
  ["a name that only one has", "c.txt", "c"],
])("%s stands for its one resource", async (_, name, content) => {
  const cwd = await target();
  const { status, stdout } = await get([name, "-o", "copy"], cwd);
  expect([status, stdout]).toEqual([0, "copy\n"]);
  expect(await readFile(join(cwd, "copy"), "utf8")).toBe(content);
});

test.each([
  [
    "a name of several",
    ["a.pdf"],
    exitCodes.usage,
    /several resources are named a\.pdf: files:.*URI/,
  ],
  ["a name of none", ["nothing"], exitCodes.notFound, /lists nothing for "nothing"; .*sluice ls/],
  ["a folder that is not there", ["files://local/no/"], exitCodes.notFound, /sluice ls/],
  ["a glob that matches nothing", ["*.doc"], exitCodes.notFound, /lists nothing for "\*\.doc"/],
  ["nothing at all", [], exitCodes.usage, /no resource is named; .*'\*\*'/],
  [
    "a filter of a file",
    ["files://local/read-me.txt", "--include", "*"],
    exitCodes.usage,
    /from a folder/,
  ],
  ["a filter that leaves nothing", ["docs/", "--include", "*.doc"], exitCodes.notFound, /nothing/],
  ["a file as the folder", ["docs/", "-o", "/dev/null"], exitCodes.usage, /null is not a folder/],
])("%s is refused with one line", async (_, args, { status }, line) => {
  const cwd = await target();
  const run = await get(args, cwd);
  expect(run.stderr).toMatch(/^sluice: [^\n]+\n$/);
  expect(run.stderr).toMatch(line);
  expect([run.status, run.stdout]).toEqual([status, ""]);
  expect(await readdir(cwd)).toEqual([]);
});

test("beside a tree a resource gets its name in the new output folder, and does not become it", async () => {
  const cwd = await target();
  const args = ["files://local/read-me.txt", "docs/deep/", "-o", "new", "-j", "1"];
  const { status, stderr } = await get(args, cwd);
  expect([status, stderr]).toEqual([0, expect.stringContaining("3 saved: ")]);
  const wanted = { "read-me.txt": "r", "a.pdf": "another a", "er/c.txt": "c" };
  expect(await treeOf(join(cwd, "new"))).toEqual(wanted);
});

test("a second run fetches nothing, and says that all is there", async () => {
  const cwd = await target();
  await get(["docs/", "-o", "out"], cwd);
  const again = await get(["docs/", "-o", "out"], cwd);
  expect([again.status, again.stderr]).toEqual([
    0,
    expect.stringMatching(/^0 saved, 4 there already: 0 B in /),
  ]);
  expect(again.stdout.trimEnd().split("\n")).toHaveLength(4);
  const { stdout } = await get(["docs/", "-o", "out", "--json"], cwd);
  for (const line of stdout.trimEnd().split("\n"))
    expect(JSON.parse(line)).toMatchObject({ uri: /^files:/, skipped: true });
});

test("small files of a tree come on the answers of their calls, without a second request", async () => {
  const cwd = await target();
  const { stdout } = await get(["docs/", "-o", "out", "--json"], cwd);
  const modes = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line).mode as string);
  expect(modes).toEqual(["direct", "direct", "direct", "direct"]);
});

test("a file that differs stays as it is unless forced, and the rest arrives", async () => {
  const cwd = await target();
  await get(["docs/", "-o", "out"], cwd);
  await writeFile(join(cwd, "out/a.pdf"), "m");
  await rm(join(cwd, "out/deep"), { recursive: true });
  const refused = await get(["docs/", "-o", "out"], cwd);
  expect(refused.status).toBe(exitCodes.target.status);
  expect(refused.stderr).toMatch(/^sluice: files:\/\/local\/docs\/a\.pdf: .*--force/);
  expect(refused.stderr).toContain("2 saved, 1 there already, 1 refused: ");
  expect(await readFile(join(cwd, "out/a.pdf"), "utf8")).toBe("m");
  const forced = await get(["docs/", "-o", "out", "--force"], cwd);
  expect([forced.status, forced.stderr]).toEqual([
    0,
    expect.stringMatching(/^1 saved, 3 there already: /),
  ]);
  expect(await readFile(join(cwd, "out/a.pdf"), "utf8")).toBe("a");
});

test("forced, a single file of the same size and time is not held for the same", async () => {
  const cwd = await target();
  await get(["docs/a.pdf", "-o", "out/"], cwd);
  const path = join(cwd, "out/a.pdf");
  const { atime, mtime } = await stat(path);
  await writeFile(path, "m");
  await utimes(path, atime, mtime);
  const { status } = await get(["docs/a.pdf", "-o", "out/", "--force"], cwd);
  expect([status, await readFile(path, "utf8")]).toEqual([0, "a"]);
});

test("links and files in place of folders are not followed or replaced", async () => {
  const cwd = await target();
  await mkdir(join(cwd, "out"));
  await mkdir(join(cwd, "elsewhere"));
  await symlink("../elsewhere", join(cwd, "out/deep"));
  await writeFile(join(cwd, "out/My Plans"), "mine");
  // the same in it does not count as there
  await get(["docs/deep/", "-o", "elsewhere"], cwd);
  const before = await treeOf(join(cwd, "elsewhere"));
  await rm(join(cwd, "elsewhere/er"), { recursive: true });
  const { status, stderr } = await get(["docs/", "-o", "out", "--force"], cwd);
  expect(status).toBe(exitCodes.target.status);
  expect(stderr.match(/is not a folder; remove it, or pass -o/g)).toHaveLength(3);
  expect(stderr).toContain("1 saved, 3 refused: ");
  expect(await treeOf(join(cwd, "elsewhere"))).toEqual({ "a.pdf": before["a.pdf"] });
  expect(await readFile(join(cwd, "out/My Plans"), "utf8")).toBe("mine");
});

test("links and folders in place of files are not followed, filled or replaced", async () => {
  const cwd = await target();
  await mkdir(join(cwd, "out/deep/a.pdf"), { recursive: true });
  await mkdir(join(cwd, "elsewhere"));
  await symlink("../elsewhere", join(cwd, "out/a.pdf"));
  await mkdir(join(cwd, "out/deep/er"));
  await writeFile(join(cwd, "mine"), "mine");
  await symlink("../../../mine", join(cwd, "out/deep/er/c.txt"));
  const { status, stderr } = await get(["docs/", "-o", "out", "--force"], cwd);
  expect(stderr.match(/is not a file; remove it, or pass -o/g)).toHaveLength(3);
  expect(stderr).toContain("1 saved, 3 refused: ");
  expect(status).toBe(exitCodes.target.status);
  expect(await treeOf(cwd)).toEqual({ mine: "mine", "out/My Plans/b [1].pdf": "b" });
});

test.each(["a folder", "a link to one"])(
  "%s in place of a single file in the output folder gets nothing",
  async (what) => {
    const cwd = await target();
    const place = join(cwd, "out/read-me.txt");
    await mkdir(what === "a folder" ? place : join(cwd, "out"), { recursive: true });
    await mkdir(join(cwd, "elsewhere"));
    if (what !== "a folder") await symlink("../elsewhere", place);
    const { status, stderr } = await get(["read-me.txt", "-o", "out", "--force"], cwd);
    expect(stderr).toMatch(/read-me\.txt" is not a file; remove it, or pass -o/);
    expect([status, await treeOf(cwd)]).toEqual([exitCodes.target.status, {}]);
  },
);

const many = Object.fromEntries(
  Array.from({ length: 60 }, (_, n) => [`${n % 7}/${n}.bin`, `${n} `.repeat(40_000)]),
);

test.each(["SIGKILL", "SIGINT"] as const)(
  "the same command goes on after %s, at several moments",
  { tags: "slow" },
  async (signal) => {
    const folder = await target();
    await writeTree(join(folder, "many"), many);
    const server = await serveHere(join(folder, "many"));
    try {
      const args = ["get", server.url, "**", "-o", join(folder, "out"), "-j", "3"];
      for (const lines of [1, 10, 25]) {
        // else the rest is there before the signal
        const { status } = await sluice([...args, "--limit-rate", "4000000"], {
          onStart(child) {
            let seen = 0;
            child.stdout!.on("data", (chunk: Buffer) => {
              seen += chunk.toString().split("\n").length - 1;
              if (seen >= lines && !child.killed) child.kill(signal);
            });
          },
        });
        expect(status).toBe(signal === "SIGINT" ? exitCodes.interrupted.status : null);
        expect(many).toMatchObject(await visibleTreeOf(join(folder, "out")));
      }
      const last = await runHere(args);
      expect([last.status, last.stderr]).toEqual([0, expect.stringMatching(/there already: /)]);
      expect(await visibleTreeOf(join(folder, "out"))).toEqual(many);
    } finally {
      await server.end();
    }
  },
);

interface RawCall {
  readonly id?: number;
  readonly method: string;
  readonly params?: { readonly uri?: string };
}

/** A server that takes no care of its URIs, which an SDK would normalize, and that refuses those without content. */
async function rawServer(
  resources: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly url: string; readonly server: Server }> {
  const results: Readonly<Record<string, (uri: string) => object | undefined>> = {
    initialize: () => ({
      protocolVersion: "2025-11-25",
      capabilities: { resources: {} },
      serverInfo: { name: "raw", version: "1" },
    }),
    "resources/list": () => ({
      resources: Object.keys(resources).map((uri) => ({ uri, name: uri })),
    }),
    "resources/read": (uri) =>
      resources[uri] === undefined ? undefined : { contents: [{ uri, text: resources[uri] }] },
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    response.setHeader("content-type", "application/json");
    if (request.method !== "POST") return void response.writeHead(405).end();
    const { id, method, params } = (await json(request)) as RawCall;
    const result = results[method]?.(params?.uri ?? "");
    const error = { code: -32603, message: "broken" };
    const body = JSON.stringify({ jsonrpc: "2.0", id, ...(result ? { result } : { error }) });
    response.writeHead(id === undefined ? 202 : 200).end(id === undefined ? "" : body);
  };
  const server = createServer((request, response) => void answer(request, response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, server };
}

/** A server of the official SDK, without streaming, with resources of these URIs. */
async function officialServer(
  resources: Readonly<Record<string, string>>,
): Promise<{ readonly url: string; readonly server: Server }> {
  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: "plain", version: "1.0.0" });
    for (const [uri, content] of Object.entries(resources))
      server.registerResource(uri, uri, { size: content.length }, () => ({
        contents: [{ uri, text: content }],
      }));
    return server;
  });
  const handle = toNodeHandler(mcp);
  const server = createServer((request, response) => void handle(request as never, response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, server };
}

test("a tree of a server without streaming is read, and the second run finds the same", async () => {
  const { url, server } = await officialServer({
    "plain://a/x.txt": "x",
    "plain://a/b/y.txt": "y",
    "plain://c/z.txt": "z",
  });
  try {
    const cwd = await target();
    const first = await get(["plain://a/", "-o", "out"], cwd, url);
    expect(first.stderr).toMatch(/^http:\S+ does not stream these resources: .*\n2 saved: 2 B in/);
    expect([first.status, first.stdout]).toEqual([0, "out/b/y.txt\nout/x.txt\n"]);
    expect(await treeOf(join(cwd, "out"))).toEqual({ "x.txt": "x", "b/y.txt": "y" });
    const again = await get(["plain://a/", "-o", "out"], cwd, url);
    expect([again.status, again.stderr]).toEqual([0, expect.stringContaining("2 there already")]);
  } finally {
    server.close().closeAllConnections();
  }
});

test("a resource that the server refuses does not end the rest, and the next run gets it", async () => {
  const resources: Record<string, string | undefined> = {
    "raw://a/1.txt": "1",
    "raw://a/2.txt": undefined,
    "raw://a/b/3.txt": "3",
  };
  const { url, server } = await rawServer(resources);
  try {
    const cwd = await target();
    const first = await get(["raw://a/", "-o", "out"], cwd, url);
    expect(first.stderr).toMatch(/^sluice: raw:\/\/a\/2\.txt: \S+ answered: broken; /m);
    expect(first.stderr).toContain("2 saved, 1 refused: ");
    expect([first.status, first.stdout]).toEqual([
      exitCodes.failed.status,
      "out/1.txt\nout/b/3.txt\n",
    ]);
    resources["raw://a/2.txt"] = "2";
    const again = await get(["raw://a/", "-o", "out"], cwd, url);
    expect([again.status, again.stderr]).toEqual([
      0,
      expect.stringContaining("1 saved, 2 there already: "),
    ]);
    expect(await treeOf(join(cwd, "out"))).toEqual({ "1.txt": "1", "2.txt": "2", "b/3.txt": "3" });
  } finally {
    server.close().closeAllConnections();
  }
});

test("no name of a server leads out of the output folder, to a hidden file, or to a file of another resource", async () => {
  const { url, server } = await rawServer({
    "evil://a/../../up.txt": "1",
    "evil://a/%2e%2e/%2e%2e/up.txt": "2",
    "evil://a//etc/passwd": "3",
    "evil://a/.ssh/.authorized_keys": "4",
    "evil://a/..%2f..%2fslash.txt": "5",
    "evil://a/..%5c..%5cback.txt": "6",
    "evil://a/-rf": "7",
  });
  try {
    const cwd = await target();
    const { status, stderr } = await get(["evil://a/", "-o", "in/out"], cwd, url);
    expect(status).toBe(exitCodes.target.status);
    expect(stderr).toContain("it has the same path as evil://a/../../up.txt; get it alone");
    expect(await treeOf(cwd)).toEqual({
      "in/out/download/download/up.txt": "1",
      "in/out/etc/passwd": "3",
      "in/out/ssh/authorized_keys": "4",
      "in/out/%2f..%2fslash.txt": "5",
      "in/out/_.._back.txt": "6",
      "in/out/_rf": "7",
    });
  } finally {
    server.close().closeAllConnections();
  }
});
