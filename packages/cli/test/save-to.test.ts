// @module-tag slow
import { createHash, randomBytes } from "node:crypto";
import {
  access,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { McpServer } from "@modelcontextprotocol/server";
import {
  Client,
  InMemoryTransport,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import {
  createSluice,
  type AccessDecision,
  type AccessRule,
  type AuditRecord,
} from "@sluice/server";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { createProgressNotes, openSaveTool } from "../src/save/save-tool.ts";
import { serveHere } from "./run-here.ts";
import { stdioClients, type ToolClient } from "./stdio-client.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const big = randomBytes(4 * 1024 ** 2);
const sha256 = createHash("sha256").update(big).digest("hex");
let root = "";
let out = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-save-to-"));
  vi.stubEnv("XDG_STATE_HOME", join(root, "state"));
});
beforeEach(async () => {
  out = join(await mkdtemp(join(root, "case-")), "out");
  await mkdir(out);
});
afterAll(() => {
  vi.unstubAllEnvs();
  return rm(root, { recursive: true });
});

describe("the real program", () => {
  let files = "";
  let folder = "";
  let client: ToolClient;
  beforeAll(async () => {
    files = join(root, "files");
    folder = join(root, "saved");
    await mkdir(join(files, "sub"), { recursive: true });
    await mkdir(folder);
    await writeFile(join(files, "sub/big.bin"), big);
    client = await stdioClients["SDK 2, MCP 2026-07-28"]([files, "--stdio", "--save-to", folder]);
    return () => client[Symbol.asyncDispose]();
  });
  // one process saves for all of them, into a folder that is empty again
  beforeEach(async () => {
    out = folder;
    for (const name of await readdir(out)) await rm(join(out, name), { recursive: true });
  });
  const uri = "files://local/sub/big.bin";

  test("save_to writes the whole file under its name, and says path, size and digest", async () => {
    const { content, structuredContent } = await client.callTool("save_to", { uri });
    const path = join(out, "big.bin");
    expect(structuredContent).toEqual({ path, size: big.length, sha256 });
    expect(content[0].text).toBe(`Saved to ${path}, 4.0 MiB, sha-256 ${sha256}`);
    expect(big.equals(await readFile(path))).toBe(true);
    expect(await readdir(out)).toEqual(["big.bin"]);
  });

  test("a file is saved by its name alone, and a missing one is refused with the nearest", async () => {
    const { content } = await client.callTool("save_to", { uri: "/Big.bin" });
    expect(content.at(-1).text).toBe(`Found as ${uri}`);
    expect(await readdir(out)).toEqual(["big.bin"]);
    const { isError, content: words } = await client.callTool("save_to", { uri: "bog.bin" });
    expect([isError, words[0].text]).toEqual([true, expect.stringContaining(`Nearest: ${uri}`)]);
  });

  test("folders of the path are made, and a slash at its end stands for the own name", async () => {
    await client.callTool("save_to", { uri, path: "2026/q1/copy.bin" });
    await client.callTool("save_to", { uri, path: "2026/q2/" });
    expect((await readdir(out, { recursive: true })).toSorted()).toEqual([
      "2026",
      "2026/q1",
      "2026/q1/copy.bin",
      "2026/q2",
      "2026/q2/big.bin",
    ]);
  });

  test("a file that is there stays as it is", async () => {
    await writeFile(join(out, "big.bin"), "mine");
    const { isError, content } = await client.callTool("save_to", { uri });
    expect([isError, content[0].text]).toEqual([true, expect.stringContaining("another path")]);
    expect(await readFile(join(out, "big.bin"), "utf8")).toBe("mine");
    expect(await readdir(out)).toEqual(["big.bin"]);
  });

  test("without the option there is no such tool", async () => {
    const served = await serveHere(files);
    const other = new Client({ name: "test", version: "1" });
    await other.connect(new StreamableHTTPClientTransport(new URL(served.url)));
    const { tools } = await other.listTools();
    await other.close();
    await served.end();
    expect(tools.map(({ name }) => name)).not.toContain("save_to");
  });
});

/** Something that saves a file of a name that a model chose. */
type Save = (path: string) => Promise<unknown>;

/** The tool over storage with one object, in this process. */
async function saverOf(
  storage: StorageBackend,
  given: {
    readonly key?: string;
    readonly records?: AuditRecord[];
    readonly access?: AccessRule;
    readonly maxTotalBytes?: number;
  } = {},
): Promise<(path?: string) => Promise<any>> {
  const { key = "a.txt", records = [], access: rule = () => "allow" as const } = given;
  const { maxTotalBytes } = given;
  const sluice = createSluice({
    storage,
    baseUri: "files://local/",
    endpoint: "http://127.0.0.1/mcp",
    keys: "ephemeral",
    onWarning() {},
    access: rule,
    audit: (record) => void records.push(record),
  });
  const attach = await openSaveTool(sluice, out, { maxTotalBytes });
  const mcp = sluice.attach(new McpServer({ name: "test", version: "1" }));
  attach(mcp);
  const client = new Client({ name: "test", version: "1" });
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await Promise.all([mcp.connect(theirs), client.connect(ours)]);
  const uri = `files://local/${key.split("/").map(encodeURIComponent).join("/")}`;
  return (path) =>
    client.callTool({
      name: "save_to",
      arguments: { uri, ...(path === undefined ? {} : { path }) },
    });
}

/** What a hostile page could have a model ask for. */
const hostilePaths = [
  "../escaped.txt",
  "sub/../../escaped.txt",
  "..",
  ".",
  "./a.txt",
  "sub/./a.txt",
  "/tmp/escaped-sluice.txt",
  "//a.txt",
  "a//b.txt",
  ".bashrc",
  "sub/.git/hooks",
  "..\\escaped.txt",
  "sub\\a.txt",
  "a\u0000.txt",
  "a\n.txt",
  "invoice\u202efdp.exe",
  " ",
  "a.txt\u0000/../../escaped.txt",
  "x".repeat(300),
  "link/escaped.txt",
  "file.txt/below.txt",
];

/** Everything beside the folder that may be written, and what in it is hidden. */
async function strayFiles(): Promise<string[]> {
  const all = await readdir(dirname(out), { recursive: true });
  const known = new Set(["out", "out/file.txt", "out/link", "outside"]);
  return all.filter((name) => !known.has(name) && !name.endsWith("own.txt"));
}

async function prepare(): Promise<void> {
  const outside = join(dirname(out), "outside");
  await mkdir(outside);
  await writeFile(join(outside, "own.txt"), "mine");
  await symlink(outside, join(out, "link"));
  await writeFile(join(out, "file.txt"), "mine");
}

test("no path leads out of the folder, to a hidden name or to one that looks like another", async () => {
  await prepare();
  const save = await saverOf(createMemoryBackend({ "a.txt": "hostile" }));
  for (const path of hostilePaths) {
    const { isError, content } = await save(path);
    expect([path, isError, content[0].text]).toEqual([
      path,
      true,
      expect.stringMatching(/pass another path|pass a path such as/),
    ]);
  }
  expect(await strayFiles()).toEqual([]);
  await expect(access("/tmp/escaped-sluice.txt")).rejects.toThrow("ENOENT");
  expect(await readFile(join(out, "file.txt"), "utf8")).toBe("mine");
});

test("a saver that joins paths is seen to write elsewhere", async () => {
  await prepare();
  const naive: Save = (path) => writeFile(join(out, path), "hostile", { flag: "wx" });
  for (const path of hostilePaths)
    if (!path.startsWith("/")) await naive(path).catch(() => undefined);
  expect((await strayFiles()).length).toBeGreaterThan(3);
});

test.each([
  ["a/.profile", "profile"],
  ["deep/report\u202efdp.exe", "reportfdp.exe"],
])("the own name of %j is written as %j", async (key, name) => {
  const save = await saverOf(createMemoryBackend({ [key]: "text" }), { key });
  expect((await save()).structuredContent.path).toBe(join(out, name));
  expect(await readdir(out)).toEqual([name]);
});

test("a call that a host repeats, at once or later, gets the same answer", async () => {
  const save = await saverOf(createMemoryBackend({ "a.txt": "text" }));
  const answers = await Promise.all(Array.from({ length: 8 }, () => save("same.txt")));
  answers.push(await save("same.txt"));
  for (const answer of answers) expect(answer).toEqual(answers[0]);
  expect(answers[0]).toMatchObject({ structuredContent: { path: join(out, "same.txt"), size: 4 } });
  expect(await readdir(out)).toEqual(["same.txt"]);
});

test("one of two concurrent saves of different files to one name succeeds", async () => {
  const store = createMemoryBackend({ "a.txt": "text" });
  const saves = await Promise.all([
    saverOf(store),
    saverOf(createMemoryBackend({ "a.txt": "tex2" })),
  ]);
  const answers = await Promise.all(saves.map((save) => save("same.txt")));
  expect(answers.filter(({ isError }) => !isError)).toHaveLength(1);
  // another version is not a repetition
  store.put("a.txt", "tex3");
  expect((await saves[0]("same.txt")).isError).toBe(true);
});

test("bytes that are fewer than storage promised leave nothing", async () => {
  const whole = createMemoryBackend({ "a.txt": "four" });
  const short: StorageBackend = {
    ...whole,
    async open(key, options) {
      const { info } = await whole.open(key, options);
      return { info, body: new Blob(["for"]).stream() };
    },
  };
  const save = await saverOf(short);
  expect((await save()).isError).toBe(true);
  expect(await readdir(out)).toEqual([]);
});

test.each([
  ["of known size", true],
  ["of unknown size", false],
])("files %s that are saved at the same time share the room of all", async (_what, isKnown) => {
  const whole = createMemoryBackend({ "a.txt": "x".repeat(1_000) });
  const storage: StorageBackend = {
    ...whole,
    async open(key, options) {
      const opened = await whole.open(key, options);
      const { size: _size, ...info } = opened.info;
      return isKnown ? opened : { ...opened, info };
    },
  };
  const save = await saverOf(storage, { maxTotalBytes: 3_500 });
  const names = ["a", "b", "c", "d", "e", "f"];
  const said = await Promise.all(names.map((name) => save(name)));
  const saved = await readdir(out);
  expect(saved).toHaveLength(isKnown ? 3 : said.filter(({ isError }) => !isError).length);
  expect(saved.length).toBeLessThanOrEqual(3);
  for (const { content } of said.filter(({ isError }) => isError))
    expect(content[0].text).toContain("--max-total");
  // what the user deletes counts no more
  for (const name of saved) await rm(join(out, name));
  expect((await save("again")).isError).toBeFalsy();
});

test("a repeated call needs no room, and one with another file of that size reads none of it", async () => {
  const store = createMemoryBackend({ "a.txt": "x".repeat(1_000) });
  let readBytes = 0;
  const counted: StorageBackend = {
    ...store,
    async open(key, options) {
      const { info, body } = await store.open(key, options);
      const counter = new TransformStream<Uint8Array, Uint8Array>(
        {
          transform(chunk, controller) {
            readBytes += chunk.byteLength;
            controller.enqueue(chunk);
          },
        },
        undefined,
        { highWaterMark: 0 },
      );
      return { info, body: body.pipeThrough(counter) };
    },
  };
  const save = await saverOf(counted, { maxTotalBytes: 1_500 });
  const first = await save("a");
  expect(first.isError).toBeFalsy();
  expect(await save("a")).toEqual(first);
  readBytes = 0;
  store.put("a.txt", "x".repeat(1_001));
  const other = await save("a");
  expect(other.content[0].text).toContain("is there already");
  expect(readBytes).toBe(0);
});

test("a client that asks for it hears once a second how far a large file is, and another one nothing", () => {
  vi.useFakeTimers();
  try {
    const notify = vi.fn<() => Promise<void>>(async () => {});
    const note = createProgressNotes({ _meta: { progressToken: 7 }, notify }, 100);
    for (const bytes of [10, 20, 30, 40]) {
      vi.advanceTimersByTime(600);
      note(bytes);
    }
    const method = "notifications/progress";
    expect(notify.mock.calls).toEqual([
      [{ method, params: { progressToken: 7, progress: 20, total: 100 } }],
      [{ method, params: { progressToken: 7, progress: 40, total: 100 } }],
    ]);
    const silent = createProgressNotes({ notify }, 100);
    vi.advanceTimersByTime(5_000);
    silent(50);
    expect(notify).toHaveBeenCalledTimes(2);
  } finally {
    vi.useRealTimers();
  }
});

test("a save is one record of the trail, and a refusal says why", async () => {
  const records: AuditRecord[] = [];
  const save = await saverOf(createMemoryBackend({ "a.txt": "text" }), { records });
  await save();
  await save("../a.txt");
  const read = { action: "read", uri: "files://local/a.txt" };
  expect(records).toMatchObject([
    { ...read, outcome: "complete", bytes: 4 },
    { ...read, outcome: "failed", reason: "invalid_argument" },
  ]);
});

test("a resource that the rules keep from streaming is not saved, and a hidden one looks missing", async () => {
  const storage = createMemoryBackend({ "a.txt": "text" });
  const said = async (decision: AccessDecision, key?: string): Promise<string> => {
    // what may be listed and read is not enough: the bytes leave whole
    const rule: AccessRule = (_who, _uri, action) => (action === "stream" ? decision : "allow");
    const save = await saverOf(storage, { access: rule, ...(key === undefined ? {} : { key }) });
    const { isError, content } = await save();
    return `${isError} ${content[0].text}`.replace("none.txt", "a.txt");
  };
  expect(await said("hide")).toBe(await said("allow", "none.txt"));
  expect(await said("deny")).toContain("Not permitted");
  expect(await readdir(out)).toEqual([]);
});
