import { createHash, randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { bodyRefusals, startBodyLimit } from "../../../e2e/bed/body-limit.ts";
import { freePort } from "../../../e2e/bed/listen.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import type { Run, Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const big = randomBytes(3 * 2 ** 20 + 3);
const token = "correct-horse-battery-staple";
let root = "";
let inbox = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-put-"));
  inbox = join(root, "inbox");
  await mkdir(join(root, "files"));
  await mkdir(inbox);
  await writeFile(join(root, "big.bin"), big);
  await writeFile(join(root, "note.txt"), "a note");
  served = await serveHere(join(root, "files"), ["--uploads", inbox, "--max-upload", "4M"], {
    env: { SLUICE_TOKEN: token },
  });
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

/** Runs `sluice put` with the server's token and a state folder of its own. */
function put(args: readonly string[], more: Record<string, string> = {}): Promise<Run> {
  const env = { SLUICE_TOKEN: token, XDG_STATE_HOME: join(root, "state"), ...more };
  return runHere(["put", ...args], { cwd: root, env });
}

test(
  "files arrive byte for byte under their names, and nothing is replaced",
  { tags: "slow" },
  async () => {
    const { status, stdout, stderr } = await put([served.url, "big.bin", "note.txt"]);
    expect(stderr).toContain(createHash("sha256").update(big).digest("hex"));
    expect(status).toBe(0);
    expect(stdout).toMatch(/^Saved as big\.bin, .*\nSaved as note\.txt, .*\n$/);
    expect(big.equals(await readFile(join(inbox, "big.bin")))).toBe(true);
    // while it waited it was for its owner only; a saved file is like any other
    const modes = await Promise.all(
      [join(inbox, "big.bin"), join(root, "big.bin")].map(async (path) => (await stat(path)).mode),
    );
    expect(modes[0]).toBe(modes[1]);
    // a host that repeats a call gets the answer of the first one
    await put([served.url, "note.txt"]);
    await mkdir(join(root, "other"));
    await writeFile(join(root, "other", "note.txt"), "other\n");
    const other = await put([served.url, "other/note.txt", "--json"]);
    expect(JSON.parse(other.stdout)).toMatchObject({
      files: [{ name: "note.txt", size: 6, mimeType: "text/plain" }],
      structuredContent: { name: "note (1).txt", size: 6 },
    });
    const names = (await readdir(inbox)).filter((name) => !name.startsWith("."));
    expect(names.toSorted()).toEqual(["big.bin", "note (1).txt", "note.txt"]);
    // nothing is left to go on with
    expect(await readdir(join(root, "state", "sluice", "uploads"))).toEqual([]);
  },
);

test.each([
  ["a file that is not there", ["nothing.bin"], exitCodes.usage, "nothing.bin is not a file"],
  ["a device", ["/dev/null"], exitCodes.usage, "is not a file"],
  ["a tool that is not there", ["note.txt", "--tool", "x"], exitCodes.notFound, "no tool x"],
  ["no file at all", [], exitCodes.usage, "save_file takes files"],
])("%s is refused with one line", async (_, args, { status }, text) => {
  const run = await put([served.url, ...args]);
  expect(run.stderr).toContain(text);
  expect([run.status, run.stdout]).toEqual([status, ""]);
});

test("a file that cannot be saved does not stay where it waited", async () => {
  const file = join(root, "taken.txt");
  await writeFile(file, "taken");
  const names = Array.from({ length: 100 }, (_, n) => (n === 0 ? "taken.txt" : `taken (${n}).txt`));
  await Promise.all(names.map((name) => writeFile(join(inbox, name), "before")));
  const { status, stderr } = await put([served.url, "taken.txt"]);
  expect([status, stderr]).toEqual([
    exitCodes.failed.status,
    expect.stringContaining("too many files are named taken.txt"),
  ]);
  const waiting = (await readdir(inbox)).find((name) => name.startsWith(".sluice-uploads-"));
  const left = (await readdir(join(inbox, waiting!), { recursive: true })).filter((name) =>
    /bytes-|file-|part-/.test(name),
  );
  expect(left).toEqual([]);
  await Promise.all(names.map((name) => rm(join(inbox, name))));
});

test.each([
  ["after a proxy's 413 the rest goes in smaller steps", [], 2 ** 20],
  ["with --max-step nothing larger is sent", ["--max-step", "256K"], 2 ** 18],
])("%s", { tags: "slow" }, async (_, args, longest) => {
  const port = await freePort();
  const refuse = bodyRefusals["reads the rest"]!;
  const proxy = await startBodyLimit(() => port, { maxBytes: 2 ** 20, refuse });
  onTestFinished(() => proxy.close());
  const url = `${proxy.origin}/mcp`;
  const saved = await mkdtemp(join(root, "saved-"));
  const behind = await serveHere(
    join(root, "files"),
    ["--port", `${port}`, "--public-url", url, "--uploads", saved],
    { env: { SLUICE_TOKEN: token } },
  );
  onTestFinished(async () => void (await behind.end()));
  const { status, stderr } = await put([url, "big.bin", ...args]);
  expect([status, stderr]).toEqual([0, expect.any(String)]);
  expect(big.equals(await readFile(join(saved, "big.bin")))).toBe(true);
  expect(Math.max(...proxy.passed)).toBe(longest);
  expect(proxy.refused.length).toBe(args.length === 0 ? 1 : 0);
});

test("without the token nothing is taken", async () => {
  const { status } = await put([served.url, "note.txt"], { SLUICE_TOKEN: "wrong" });
  expect(status).toBe(exitCodes.denied.status);
});

test("a file over the server's limit is refused before it is sent", async () => {
  await writeFile(join(root, "larger.bin"), Buffer.alloc(4 * 2 ** 20 + 1));
  const { status, stdout, stderr } = await put([served.url, "larger.bin"]);
  expect(stderr).toMatch(/^sluice: .*larger.*\n$/);
  expect([status, stdout]).toEqual([exitCodes.refused.status, ""]);
});

test("source code, keys and files of no known kind arrive, whatever their names suggest", async () => {
  const contents: Readonly<Record<string, Buffer>> = {
    ...Object.fromEntries(
      ["index.ts", "main.rs", "run.bat", "notes.org", "server.key", "id.pub", "graph.dot"].map(
        (name) => [name, Buffer.from(`// ${name}\n`)],
      ),
    ),
    f00d: gzipSync("an object"),
    picture: Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"),
  };
  const names = Object.keys(contents);
  await Promise.all(names.map((name) => writeFile(join(root, name), contents[name]!)));
  const { status, stderr } = await put([served.url, ...names]);
  expect([status, stderr]).toEqual([0, expect.not.stringContaining("sluice:")]);
  for (const name of names) expect(await readFile(join(inbox, name))).toEqual(contents[name]);
});

test("a refused file does not keep those behind it from being sent, and the run fails", async () => {
  const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");
  await writeFile(join(root, "program.pdf"), Buffer.from("MZ\x90\0program", "latin1"));
  await writeFile(join(root, "too-large.bin"), Buffer.alloc(4 * 2 ** 20 + 1));
  await writeFile(join(root, "behind.png"), png);
  const run = await put([served.url, "program.pdf", "too-large.bin", "behind.png"]);
  expect(run.stderr).toMatch(/^sluice: program\.pdf: .*type.*\nsluice: too-large\.bin: .*larger/);
  expect(run.stderr).toContain("sluice: 2 of 3 files were refused; see the lines above\n");
  expect([run.status, run.stdout]).toEqual([
    exitCodes.refused.status,
    expect.stringMatching(/^Saved as behind\.png, .*\n$/),
  ]);
  expect(await readFile(join(inbox, "behind.png"))).toEqual(png);
});
