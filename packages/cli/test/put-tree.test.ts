// `sluice put` of folders, globs and standard input.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { rmSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { chooseFiles } from "../src/upload/choose-files.ts";
import { runHere, serveHere } from "./run-here.ts";
import { program, runCommand, sluice, type Run, type Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let root = "";
let inbox = "";
let served: Served;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-put-tree-"));
  inbox = join(root, "inbox");
  await mkdir(join(root, "files"));
  await writeTree({
    "flat/a.txt": "a",
    "flat/b.md": "b",
    "flat/.hidden": "hidden",
    "deep/c.txt": "c",
    "deep/er/d.txt": "d",
    "twice/1/e.txt": "1",
    "twice/2/e.txt": "2",
  });
  await symlink("a.txt", join(root, "flat/link.txt"));
  served = await serveHere(join(root, "files"), ["--uploads", inbox, "--max-upload", "1M"]);
});
afterEach(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

async function writeTree(tree: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, content] of Object.entries(tree)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), content);
  }
}

const state = (): Record<string, string> => ({ XDG_STATE_HOME: join(root, "state") });

function put(...args: readonly string[]): Promise<Run> {
  return runHere(["put", served.url, ...args], { cwd: root, env: state() });
}

async function received(): Promise<readonly string[]> {
  return (await readdir(inbox)).filter((name) => !name.startsWith(".")).toSorted();
}

test.each([
  ["a folder", ["flat"], ["a.txt", "b.md"], /^2 hidden files and links were left out\n2 sent: /],
  [
    "a folder and a file of another",
    ["flat/", "deep/c.txt"],
    ["a.txt", "b.md", "c.txt"],
    /3 sent: /,
  ],
  ["a glob", ["flat/*.txt"], ["a.txt"], /left out/],
  ["what --include names", ["flat", "--include", "*.md"], ["b.md"], /left out/],
  ["what --exclude leaves", ["deep", "--exclude", "er/"], ["c.txt"], /sha256|^$/],
  ["the files of subfolders, with --flat", ["deep", "--flat"], ["c.txt", "d.txt"], /^2 sent: /],
])("%s is sent under the names of its files", async (_, args, wanted, stderr) => {
  const run = await put(...args);
  expect([run.status, run.stderr]).toEqual([0, expect.stringMatching(stderr)]);
  expect(run.stdout.match(/^Saved as /gm)).toHaveLength(wanted.length);
  expect(await received()).toEqual(wanted);
  expect(await readdir(join(root, "state/sluice/uploads")).catch(() => [])).toEqual([]);
});

test.each([
  ["a folder with subfolders", ["deep"], /deep\/er\/d\.txt is in a subfolder, .*--flat/],
  ["files of one name", ["twice", "--flat"], /1\/e\.txt and twice\/2\/e\.txt have the same name/],
  ["a glob that matches nothing", ["flat/*.doc"], /no file matches flat\/\*\.doc/],
  ["a filter that leaves nothing", ["flat", "--include", "*.doc"], /no file is left to send/],
  ["a filter of files", ["flat/a.txt", "--include", "*"], /choose from a folder/],
  ["standard input without a name", ["-"], /standard input, .*--name/],
  ["a name for two files", ["flat/a.txt", "flat/b.md", "--name", "x"], /--name is for one file/],
])("%s is refused before anything is sent", async (_, args, line) => {
  const run = await put(...args);
  expect(run.stderr).toMatch(line);
  expect([run.status, run.stdout]).toEqual([exitCodes.usage.status, ""]);
  expect(await received()).toEqual([]);
});

test("a refused file does not end the rest, and the same command sends only that", async () => {
  await writeFile(join(root, "flat/c.bin"), Buffer.alloc(2 ** 20 + 1));
  const first = await put("flat");
  expect(first.status).toBe(exitCodes.refused.status);
  expect(first.stderr).toMatch(
    /^sluice: flat\/c\.bin: larger than .*; uri of save_file takes any type, at most 1\.0 MiB: /m,
  );
  expect(first.stderr).toContain("2 sent, 1 refused: ");
  await writeFile(join(root, "flat/c.bin"), "now it fits");
  await rm(join(inbox, "a.txt"));
  const again = await put("flat");
  expect([again.status, again.stderr]).toEqual([
    0,
    expect.stringContaining("1 sent, 2 sent by an earlier run: "),
  ]);
  expect(await received()).toEqual(["b.md", "c.bin"]);
  // that run ended: the next one sends all
  await put("flat");
  expect(await received()).toEqual(["a.txt", "b.md", "c.bin"]);
});

test("a glob without ** looks into no deeper folder", async () => {
  await writeTree({ "flat/deeper/.hidden": "hidden", "flat/deeper/x.txt": "x" });
  const run = await put("flat/*.txt");
  expect([run.status, await received()]).toEqual([0, ["a.txt"]]);
  expect(run.stderr).toContain("2 hidden files and links were left out\n");
});

test("a look through folders ends with the signal of its run", async () => {
  const reason = new Error("enough");
  const looking = chooseFiles([join(root, "flat")], {}, AbortSignal.abort(reason));
  await expect(looking).rejects.toBe(reason);
});

test("a file that disappears before its turn does not end the rest", async () => {
  const remove = (): void => rmSync(join(root, "flat/b.md"), { force: true });
  subscribe("http.server.request.start", remove);
  try {
    const run = await put("flat", "-j", "1");
    expect(run.status).toBe(exitCodes.notFound.status);
    expect(run.stderr).toMatch(/^sluice: flat\/b\.md: .*there is no such file/m);
    expect(run.stderr).toContain("1 sent, 1 refused: ");
  } finally {
    unsubscribe("http.server.request.start", remove);
  }
  expect(await received()).toEqual(["a.txt"]);
});

test("a file that changes while it is handed over is sent again by the same command", async () => {
  await writeFile(join(root, "flat/c.bin"), Buffer.alloc(2 ** 20 + 1));
  const calls: string[] = [];
  const change = (message: unknown): void => {
    const { request } = message as { readonly request: IncomingMessage };
    if (request.headers["mcp-method"] !== "tools/call") return;
    calls.push(request.url ?? "");
    if (calls.length === 1) writeFileSync(join(root, "flat/a.txt"), "a later version");
  };
  subscribe("http.server.request.start", change);
  try {
    await put("flat", "-j", "1");
  } finally {
    unsubscribe("http.server.request.start", change);
  }
  expect(calls).toHaveLength(2);
  const again = await put("flat");
  expect(again.stderr).toContain("1 sent, 1 sent by an earlier run, 1 refused: ");
});

test.each([
  ["with another token", ["--token", "of-another"]],
  ["with another header", ["--header", "x-tenant: another"]],
  ["as another type", ["--type", "text/plain"]],
])("a file that one run sent is sent again %s", async (_, args) => {
  await writeFile(join(root, "flat/c.bin"), Buffer.alloc(2 ** 20 + 1));
  await put("flat");
  const other = await put("flat", ...args);
  expect(other.stderr).toContain("2 sent, 1 refused: ");
  const again = await put("flat", ...args);
  expect(again.stderr).toContain("0 sent, 2 sent by an earlier run, 1 refused: ");
});

test("a type that the tool does not take is answered with those that it takes", async () => {
  await writeFile(join(root, "flat/program.pdf"), Buffer.from("MZ\u0090\0program", "latin1"));
  const { stderr } = await put("flat/program.pdf");
  expect(stderr).toMatch(/^sluice: .*; uri of save_file takes any type, at most 1\.0 MiB: /);
});

test.each(["SIGKILL", "SIGINT"] as const)(
  "the same command goes on after %s",
  { tags: "slow" },
  async (signal) => {
    const many = Object.fromEntries(
      Array.from({ length: 40 }, (_, n) => [`many/${n}.txt`, `${n} `.repeat(5_000)]),
    );
    await writeTree(many);
    const args = ["put", served.url, join(root, "many")];
    await sluice(args, {
      env: state(),
      onStart(child) {
        let seen = 0;
        child.stdout!.on("data", (chunk: Buffer) => {
          seen += chunk.toString().split("\n").length - 1;
          if (seen >= 10 && !child.killed) child.kill(signal);
        });
      },
    });
    const last = await runHere(args, { env: state() });
    expect(last.status).toBe(0);
    const [, skipped] = /(\d+) sent by an earlier run/.exec(last.stderr) ?? [];
    expect(Number(skipped)).toBeGreaterThanOrEqual(8);
    // a file whose call was cut is sent again, and is the same file
    expect(await received()).toHaveLength(40);
    for (const [name, content] of Object.entries(many))
      expect(await readFile(join(inbox, name.slice(5)), "utf8")).toBe(content);
  },
);

test("standard input is sent under a name, and stays nowhere", { tags: "slow" }, async () => {
  const before = (await readdir(tmpdir())).filter((name) => name.startsWith("sluice-stdin-"));
  const words = [...program, "put", served.url, "-", "--name", "out.csv", "--type", "text/csv"];
  const line = [...words, "--json"].map((word) => `'${word}'`).join(" ");
  const run = await runCommand(["sh", "-c", `printf 'a,b\\n1,2\\n' | ${line}`], { env: state() });
  expect([run.status, run.stderr]).toEqual([0, expect.stringContaining("sha256 ")]);
  expect(JSON.parse(run.stdout)).toMatchObject({
    files: [{ name: "out.csv", mimeType: "text/csv", size: 8 }],
  });
  expect(await readFile(join(inbox, "out.csv"), "utf8")).toBe("a,b\n1,2\n");
  const after = (await readdir(tmpdir())).filter((name) => name.startsWith("sluice-stdin-"));
  expect(after).toEqual(before);
});

test("--quiet prints what the tool says alone", async () => {
  const run = await put("flat", "deep/c.txt", "-q", "--exclude", "*.md");
  expect([run.status, run.stdout.match(/^Saved as/gm)?.length]).toEqual([0, 2]);
  expect(run.stderr).toBe("2 hidden files and links were left out\n");
});
