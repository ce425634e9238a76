import { createHash } from "node:crypto";
import { chmod, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  saveTree,
  type RequestingClient,
  type SaveTreeOptions,
  type TreeFile,
} from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { EXTENSION_ID, formatTreeFrame, TREE_METHOD, treeBounds } from "@sluice/core/internal";
import { expect, onTestFinished, test } from "vitest";
import { hostile } from "../../core/test/hostile-trees.ts";
import { createRawClient } from "./raw-client.ts";

type Names = readonly string[];

/**
 * What a server does with one call for many files: gives the bytes after which the connection breaks, says that it has
 * answered already, or `undefined` to serve it as it should.
 */
type Script = (
  asked: Names,
  call: number,
  res: ServerResponse,
) => Uint8Array | "silence" | undefined;

interface TreeServer {
  readonly client: RequestingClient;
  /** Names of each call for many, and of each call for one. */
  readonly together: Names[];
  readonly alone: string[];
}

const uriOf = (name: string): string => `x://a/${name}`;

/** Serves files, many in one response and one by one; a script spoils the former. */
async function serve(
  files: Readonly<Record<string, Uint8Array>>,
  script: Script = () => undefined,
  declaration: object = { tree: treeBounds },
): Promise<TreeServer> {
  const together: Names[] = [];
  const alone: string[] = [];
  const server = createServer((req: IncomingMessage, res) => {
    let text = "";
    req.on("data", (chunk: Buffer) => (text += chunk.toString()));
    req.on("end", () => {
      const { id, method, params } = JSON.parse(text);
      if (method === TREE_METHOD) return answerMany(params.uris.map(nameOf), res);
      const name = nameOf(params.uri);
      alone.push(name);
      const content = files[name];
      if (content) return void res.writeHead(200, { "mcp-resource-uri": params.uri }).end(content);
      const error = { code: -32_002, message: "no", data: { reason: "not_found" } };
      res.writeHead(200, { "content-type": "application/json" });
      res.end(JSON.stringify({ jsonrpc: "2.0", id, error }));
    });
  });
  function answerMany(asked: Names, res: ServerResponse): void {
    together.push(asked);
    const spoiled = script(asked, together.length, res);
    if (spoiled === "silence") return;
    res.writeHead(200, { "content-type": "application/vnd.sluice.tree" });
    if (!spoiled) return void res.end(responseOf(asked, files));
    // what was written arrives, and then the connection breaks
    res.write(spoiled, () => res.socket?.end());
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const client = Object.assign(createRawClient(url, withStreaming()), {
    getServerCapabilities: () => ({ extensions: { [EXTENSION_ID]: declaration } }),
  });
  return { client, together, alone };
}

function nameOf(uri: string): string {
  return uri.slice("x://a/".length);
}

/** A sound response. */
function responseOf(asked: Names, files: Readonly<Record<string, Uint8Array>>): Buffer {
  return Buffer.concat([...asked.flatMap((name, i) => framesOf(i, files[name])), endOf(asked)]);
}

function framesOf(i: number, content: Uint8Array | undefined, facts: object = {}): Uint8Array[] {
  if (!content) return [formatTreeFrame({ i, error: { reason: "not_found" } })];
  const head = { i, size: content.length, modifiedMs: 1_600_000_000_000, ...facts };
  return [formatTreeFrame(head), content, formatTreeFrame({ ok: true })];
}

function endOf({ length }: Names): Uint8Array {
  return formatTreeFrame({ end: true, count: length });
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Path → text of every file below a folder, hidden ones too. */
async function treeIn(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files: Record<string, string> = {};
  for (const entry of entries.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name);
    files[path.slice(folder.length + 1)] = await readFile(path, "utf8");
  }
  return files;
}

const texts: Readonly<Record<string, string>> = {
  "a.txt": "alpha",
  "empty.txt": "",
  "in/b.txt": "beta",
  "in/deep/c.txt": "gamma",
};
const contents = Object.fromEntries(
  Object.entries(texts).map(([name, text]) => [name, Buffer.from(text)]),
);
const names = Object.keys(texts);
const filesOf = (some: Names): TreeFile[] => some.map((name) => ({ uri: uriOf(name), path: name }));
const quick: SaveTreeOptions = { timeouts: { pauseScale: 0 } };

test("a tree comes in one response, each file whole, verified and with its time", async () => {
  const server = await serve(contents);
  const folder = join(await newFolder(), "new");
  const progress: unknown[] = [];
  const files = filesOf(names).map((file) => ({ ...file, size: contents[file.path]!.length }));
  const { saved, failed } = await saveTree(server.client, files, folder, {
    onProgress: (count) => progress.push(count),
  });
  expect(failed).toEqual([]);
  expect(saved).toEqual(
    names.map((name) => ({
      uri: uriOf(name),
      path: join(folder, name),
      size: contents[name]!.length,
      sha256: createHash("sha256").update(contents[name]!).digest("hex"),
      verified: "length",
      resumedBytes: 0,
    })),
  );
  expect(await treeIn(folder)).toEqual(texts);
  expect((await stat(join(folder, "a.txt"))).mtimeMs).toBe(1_600_000_000_000);
  expect(server).toMatchObject({ together: [names], alone: [] });
  expect(progress.at(-1)).toEqual({ bytes: 14, totalBytes: 14 });
});

/** Places at, after and within each part of a sound response: lengths, JSON, bytes. */
function* cutsOf(asked: Names): Generator<number> {
  let at = 0;
  for (const part of [...asked.flatMap((name, i) => framesOf(i, contents[name])), endOf(asked)]) {
    yield* new Set([at, at + Math.min(2, part.length), at + Math.floor(part.length / 2)]);
    at += part.length;
  }
}

test("a cut within any frame leads to the same tree, and only what is missing is asked for again", async () => {
  const whole = responseOf(names, contents);
  for (const cut of cutsOf(names)) {
    const server = await serve(contents, (_, call) =>
      call === 1 ? whole.subarray(0, cut) : undefined,
    );
    const folder = await newFolder();
    const { saved } = await saveTree(server.client, filesOf(names), folder, quick);
    expect(saved.map(({ uri }) => nameOf(uri))).toEqual(names);
    expect(await treeIn(folder)).toEqual(texts);
    const [first, again = []] = server.together;
    const arrived = first!.filter((name) => !again.includes(name));
    expect(again).toEqual(names.slice(arrived.length));
    expect(server.alone).toEqual([]);
  }
});

test("a server that never gets on is given up with an error that names the first missing file", async () => {
  const whole = responseOf(names, contents);
  const afterTwo = Buffer.concat(
    names.slice(0, 2).flatMap((name, i) => framesOf(i, contents[name])),
  );
  const server = await serve(contents, (_, call) =>
    call === 1 ? whole.subarray(0, afterTwo.length + 3) : whole.subarray(0, 3),
  );
  const folder = await newFolder();
  await expect(saveTree(server.client, filesOf(names), folder, quick)).rejects.toMatchObject({
    code: "interrupted",
    message: expect.stringContaining('"x://a/in/b.txt"'),
  });
  expect(await treeIn(folder)).toEqual({ "a.txt": "alpha", "empty.txt": "" });
});

test.each(Object.entries(hostile))(
  "%s ends a save, with no file but verified ones",
  async (_, chunks) => {
    const files = {
      "0.txt": Buffer.from("zero"),
      "1.txt": Buffer.from("hello"),
      "2.txt": Buffer.alloc(0),
    };
    const bounds = { maxFiles: 3, maxBytes: 100 };
    const server = await serve(files, () => Buffer.concat(chunks), { tree: bounds });
    const folder = await newFolder();
    const options = { ...quick, maxStreamBytes: 50 };
    const saving = saveTree(server.client, filesOf(Object.keys(files)), folder, options);
    await expect(saving).rejects.toMatchObject({
      code: expect.stringMatching(/^(?:protocol|interrupted)$/),
    });
    const arrived = await treeIn(folder);
    for (const [path, text] of Object.entries(arrived)) {
      expect(["0.txt", "1.txt", "2.txt"]).toContain(path);
      // a file of the table that came whole before the fault
      expect([files[path as keyof typeof files].toString(), "\0".repeat(50)]).toContain(text);
    }
  },
);

test("files that are void, refused, or not those of the list come by calls of their own", async () => {
  const [void_, refused, other] = ["void.txt", "refused.txt", "other.txt"] as const;
  const files = {
    [void_]: Buffer.from("1"),
    [refused]: Buffer.from("2"),
    [other]: Buffer.from("33"),
  };
  const server = await serve(files, (asked, _call, res) => {
    res.writeHead(200, { "content-type": "application/vnd.sluice.tree" });
    res.end(
      Buffer.concat([
        formatTreeFrame({ i: 0, size: 1 }),
        Buffer.from("X"),
        formatTreeFrame({ ok: false }),
        formatTreeFrame({ i: 1, error: { reason: "stream_unsupported" } }),
        ...framesOf(2, Buffer.from("longer")),
        endOf(asked),
      ]),
    );
    return "silence" as const;
  });
  const folder = await newFolder();
  const asked = filesOf(Object.keys(files)).map((file) => ({
    ...file,
    size: files[file.path as keyof typeof files].length,
  }));
  const large = { uri: uriOf("gone.txt"), path: "gone.txt", size: 2 ** 23 };
  const { saved, failed } = await saveTree(server.client, [...asked, large], folder);
  expect(saved.map(({ path }) => path)).toEqual(
    Object.keys(files).map((name) => join(folder, name)),
  );
  expect(await treeIn(folder)).toEqual({ [void_]: "1", [refused]: "2", [other]: "33" });
  expect(failed).toMatchObject([{ uri: large.uri, error: { code: "not_found" } }]);
  expect(server.together).toEqual([Object.keys(files)]);
  expect(server.alone.toSorted((a, b) => a.localeCompare(b))).toEqual([
    "gone.txt",
    other,
    refused,
    void_,
  ]);
});

test("a file that is not the expected one is not saved", async () => {
  const server = await serve(contents);
  const folder = await newFolder();
  const file = { uri: uriOf("a.txt"), path: "a.txt", sha256: "0".repeat(64) };
  const { saved, failed } = await saveTree(server.client, [file], folder);
  expect([saved, failed]).toMatchObject([[], [{ error: { code: "corrupt" } }]]);
  expect(await treeIn(folder)).toEqual({});
});

test("a digest that the server promises is checked, and required where the caller says so", async () => {
  const sha256 = createHash("sha256").update("alpha").digest("hex");
  const withDigest = (digest: string) => (asked: Names, _call: number, res: ServerResponse) => {
    res.writeHead(200, { "content-type": "application/vnd.sluice.tree" });
    const [head, content] = framesOf(0, contents["a.txt"]);
    const trailer = formatTreeFrame({ ok: true, sha256: digest });
    res.end(Buffer.concat([head!, content!, trailer, endOf(asked)]));
    return "silence" as const;
  };
  const options = { requireDigest: true };
  const right = await serve(contents, withDigest(sha256));
  const one = filesOf(["a.txt"]);
  const { saved } = await saveTree(right.client, one, await newFolder(), options);
  expect(saved).toMatchObject([{ verified: "digest", sha256 }]);
  const wrong = await serve(contents, withDigest("0".repeat(64)));
  const { failed } = await saveTree(wrong.client, one, await newFolder(), options);
  expect(failed).toMatchObject([{ error: { code: "unsupported" } }]);
  const none = await serve(contents);
  const result = await saveTree(none.client, one, await newFolder(), options);
  expect(result.failed).toMatchObject([{ error: { code: "unsupported" } }]);
});

test.each([{}, { tree: { maxFiles: "many", maxBytes: 1 } }])(
  "a server that declares %j is asked for each file by itself",
  async (declaration) => {
    const server = await serve(contents, undefined, declaration);
    const folder = await newFolder();
    await saveTree(server.client, filesOf(names), folder);
    expect(await treeIn(folder)).toEqual(texts);
    expect(server.together).toEqual([]);
    expect(server.alone).toHaveLength(names.length);
  },
);

test("no call asks for more than the server's bounds", async () => {
  const server = await serve(contents, undefined, { tree: { maxFiles: 3, maxBytes: 9 } });
  const folder = await newFolder();
  const files = filesOf(names).map((file) => ({ ...file, size: contents[file.path]!.length }));
  await saveTree(server.client, files, folder);
  expect(await treeIn(folder)).toEqual(texts);
  expect(server.together).toEqual([["a.txt", "empty.txt", "in/b.txt"], ["in/deep/c.txt"]]);
});

test.each(["../a", "/a", "a//b", ".hidden", "a/../b", "a\\b", "", "-rf", "a/\u0000"])(
  "a path such as %j is refused before anything is requested",
  async (path) => {
    const server = await serve(contents);
    const folder = await newFolder();
    const saving = saveTree(server.client, [{ uri: uriOf("a.txt"), path }], folder);
    await expect(saving).rejects.toThrow(TypeError);
    expect(server).toMatchObject({ together: [], alone: [] });
  },
);

test("two files of one path are refused before anything is requested", async () => {
  const server = await serve(contents);
  const [first] = filesOf(["a.txt"]);
  const saving = saveTree(server.client, [first!, first!], await newFolder());
  await expect(saving).rejects.toThrow("two files have the path");
  expect(server.together).toEqual([]);
});

test("nothing is written through a link in place of a folder or a file", async () => {
  const server = await serve(contents);
  const folder = await newFolder();
  const outside = await newFolder();
  await symlink(outside, join(folder, "in"));
  await symlink(join(outside, "a.txt"), join(folder, "a.txt"));
  const options = { overwrite: true };
  const { saved, failed } = await saveTree(server.client, filesOf(names), folder, options);
  expect(saved.map(({ uri }) => uri)).toEqual([uriOf("empty.txt")]);
  expect(failed).toMatchObject(
    ["a.txt", "in/b.txt", "in/deep/c.txt"].map((name) => ({
      uri: uriOf(name),
      error: { code: "already_exists" },
    })),
  );
  expect(await treeIn(outside)).toEqual({});
});

test("a file that is there stays, and is replaced only where the caller says so, with its permissions", async () => {
  const server = await serve(contents);
  const folder = await newFolder();
  const path = join(folder, "a.txt");
  await writeFile(path, "mine");
  await chmod(path, 0o640);
  const { failed } = await saveTree(server.client, filesOf(names), folder);
  expect(failed).toMatchObject([{ uri: uriOf("a.txt"), error: { code: "already_exists" } }]);
  expect(await treeIn(folder)).toEqual({ ...texts, "a.txt": "mine" });
  await saveTree(server.client, filesOf(["a.txt"]), folder, { overwrite: true });
  expect(await treeIn(folder)).toEqual(texts);
  expect((await stat(path)).mode & 0o777).toBe(0o640);
});

test("a disk that does no more ends the save with its fault", async () => {
  const server = await serve(contents);
  const folder = await newFolder();
  await writeFile(join(folder, "file"), "");
  const saving = saveTree(server.client, filesOf(names), join(folder, "file", "below"));
  await expect(saving).rejects.toMatchObject({ origin: "disk" });
  expect(server.together).toHaveLength(1);
});

test("consent is asked once for the whole tree, before a byte is written", async () => {
  const server = await serve(contents);
  const folder = await newFolder();
  const scales: unknown[] = [];
  const files = filesOf(names).map((file) => ({ ...file, size: contents[file.path]!.length }));
  const agree = (scale: object): boolean => (scales.push(scale), true);
  await saveTree(server.client, files, folder, { consent: agree });
  const from = [expect.stringMatching(/^127\.0\.0\.1:\d+$/)];
  expect(scales).toEqual([{ files: 4, bytes: 14, unknownSizes: 0, from, to: folder }]);
  const empty = await newFolder();
  const declining = saveTree(server.client, files, empty, { consent: () => false });
  await expect(declining).rejects.toMatchObject({ code: "permission_denied" });
  expect(await treeIn(empty)).toEqual({});
});

test("an abort ends a save that waits for bytes, with its reason, and leaves no part", async () => {
  const controller = new AbortController();
  const whole = responseOf(names, contents);
  // the rest never comes
  const server = await serve(contents, (_, _call, res) => {
    res.writeHead(200, { "content-type": "application/vnd.sluice.tree" });
    res.write(whole.subarray(0, whole.length - 60));
    return "silence";
  });
  const folder = await newFolder();
  const reason = new Error("enough");
  const saving = saveTree(server.client, filesOf(names), folder, {
    signal: controller.signal,
    onProgress: () => controller.abort(reason),
  });
  await expect(saving).rejects.toBe(reason);
  const left = Object.keys(await treeIn(folder));
  expect(left.filter((name) => name.endsWith(".part"))).toEqual([]);
});
