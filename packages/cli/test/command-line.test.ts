import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes, formatExitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import { freePort, sluice } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-cli-"));
});
afterAll(() => rm(folder, { recursive: true }));

test("help goes to standard output and names every exit code", async () => {
  const { status, stdout, stderr } = await runHere(["--help"]);
  expect(status).toBe(0);
  expect(stderr).toBe("");
  for (const command of ["serve", "ls", "get"]) expect(stdout).toContain(`  ${command} `);
  expect(stdout).toContain(formatExitCodes());
});

test("help of serve says what one user has", async () => {
  const { stdout } = await runHere(["serve", "--help"]);
  expect(stdout).toContain("256 downloads\nand 64 uploads");
});

test.each([
  ["a misspelt option", ["ls", "--jso", "http://127.0.0.1:1/mcp"]],
  ["a missing argument", ["get", "http://127.0.0.1:1/mcp"]],
  ["an invalid size", ["get", "http://127.0.0.1:1/mcp", "a:b", "--max-size", "much"]],
  ["an invalid base URI", ["serve", ".", "--port", "0", "--no-audit", "--uri", "files"]],
  ["an invalid address", ["ls", "localhost"]],
  [
    "a place that is not an origin",
    ["get", "http://127.0.0.1:1/mcp", "a:b", "--trust", "cdn.example.com"],
  ],
  [
    "an origin with a path",
    ["put", "http://127.0.0.1:1/mcp", "package.json", "--trust", "https://a.example/b"],
  ],
])("%s is a usage error, on one line of standard error", async (_, args) => {
  const { status, stdout, stderr } = await runHere(args);
  expect(status).toBe(exitCodes.usage.status);
  expect(stdout).toBe("");
  expect(stderr).toMatch(/^sluice: .+\n$/);
});

test.each([
  ["an address", ["ls", "https://ada:hunter2@host/mcp"]],
  ["an address without its scheme", ["ls", "ada:hunter2@h.example/mcp"]],
  ["an address to copy to", ["put", "ftp://ada:hunter2@host/mcp", "package.json"]],
  ["a server to look at", ["doctor", "https://ada:hunter2@host/mcp"]],
  ["a connection string", ["serve", "AccountName=a;AccountKey=hunter2;x=y", "--no-audit"]],
  ["a storage URL", ["serve", "s3://ada:hunter2@bucket", "--no-audit"]],
  ["a base URI", ["serve", ".", "--no-audit", "--uri", "files://ada:hunter2@local/"]],
  ["an origin", ["get", "http://127.0.0.1:1/mcp", "a:b", "--trust", "https://ada:hunter2@x.org"]],
  ["a public address", ["serve", ".", "--no-audit", "--public-url", "https://ada:hunter2@x.org"]],
  ["a misspelt option", ["ls", "--tokn", "--token=hunter2", "--secret=hunter2"]],
])("credentials in %s are not repeated in the error", async (_, args) => {
  const { status, stderr } = await runHere(args);
  expect(status).not.toBe(0);
  expect(stderr).toMatch(/^sluice: .+\n$/);
  expect(stderr).not.toContain("hunter2");
});

test("a place that is not an origin is refused with its right spelling, and nothing is sent", async () => {
  const url = `http://127.0.0.1:${await freePort()}/mcp`;
  for (const args of [
    ["get", url, "files://local/a"],
    ["put", url, "package.json"],
  ]) {
    const { status, stderr } = await runHere([...args, "--trust", "cdn.example.com"]);
    expect(status).toBe(exitCodes.usage.status);
    expect(stderr).toMatch(
      /^sluice: "cdn.example.com" is not an origin.*; write it like --trust https:.*\n$/,
    );
  }
});

test("a folder is opened to other machines with a token or --allow-anonymous only", async () => {
  const bare = await runHere(["serve", folder, "--host", "0.0.0.0", "--port", "0"]);
  expect(bare.status).toBe(exitCodes.usage.status);
  expect(bare.stdout).toBe("");
  expect(bare.stderr).toMatch(/^sluice: .*other machines.*SLUICE_TOKEN.*--allow-anonymous.*\n$/);

  const args = ["serve", folder, "--public-url", "https://files.example.com/mcp", "--port", "0"];
  const behindProxy = await runHere(args);
  expect(behindProxy.status).toBe(exitCodes.usage.status);
  expect(behindProxy.stderr).toContain("SLUICE_TOKEN");
});

test.each(["--max-upload", "--max-step"])(
  "%s without a folder for uploads is a usage error that says what to pass",
  async (option) => {
    const args = ["serve", folder, "--port", "0", "--no-audit", option, "4M"];
    const { status, stdout, stderr } = await runHere(args);
    expect([status, stdout]).toEqual([exitCodes.usage.status, ""]);
    expect(stderr).toBe(
      `sluice: ${option} has no effect without --uploads; pass --uploads with the folder that clients may put files into\n`,
    );
  },
);

test.each(["serve", "bridge", "put"])("%s takes no steps below 64 KiB", async (command) => {
  const { status, stderr } = await runHere([command, folder, "--max-step", "63K"]);
  expect(status).toBe(exitCodes.usage.status);
  expect(stderr).toContain("Use a size of 64K or more.");
});

test("a token does not travel in the clear", async () => {
  const { status, stderr } = await runHere(["ls", "http://files.example.com/mcp"], {
    env: { SLUICE_TOKEN: "hush-hush" },
  });
  expect(status).toBe(exitCodes.refused.status);
  expect(stderr).toMatch(/^sluice: .*clear.*https.*\n$/);
  expect(stderr).not.toContain("hush-hush");
});

test("a server that is not there is a network error that says what to do", async () => {
  const url = `http://127.0.0.1:${await freePort()}/mcp`;
  const { status, stdout, stderr } = await runHere(["ls", url]);
  expect(status).toBe(exitCodes.network.status);
  expect(stdout).toBe("");
  expect(stderr).toMatch(/^sluice: http:\S+ cannot be reached \(ECONNREFUSED\); check .*again\n$/);
});

test("a folder that is not there cannot be served", async () => {
  const { status, stderr } = await runHere(["serve", join(folder, "nothing")]);
  expect(status).toBe(exitCodes.usage.status);
  expect(stderr).toMatch(/^sluice: .*nothing is not a folder.*\n$/);
});

test("folders that files come into are made where they are missing, one level deep", async () => {
  await mkdir(join(folder, "files/node_modules"), { recursive: true });
  const files = join(folder, "files");
  const targets = ["--uploads", join(folder, "inbox"), "--save-to", join(folder, "saved")];
  const server = await serveHere(files, targets);
  const { stderr } = await server.end();
  expect(stderr).toMatch(/^Made .*inbox\nMade .*saved\nServing /);
  expect(stderr).toContain("node_modules is in it");
  expect((await stat(join(folder, "inbox"))).mode & 0o777).toBe(0o700);
  expect((await stat(join(folder, "saved"))).isDirectory()).toBe(true);
  const again = await serveHere(files, targets);
  expect((await again.end()).stderr).not.toContain("Made");
});

test("a token with --stdio has no effect, and that is said", { tags: "slow" }, async () => {
  const { stderr } = await sluice(["serve", ".", "--stdio", "--token", "hunter2"], {
    cwd: folder,
    onStart: (child) => child.stdin!.end(),
  });
  expect(stderr).toMatch(/^Serving .* over stdio; .*\n  --token and SLUICE_TOKEN have no effect: /);
});

test("a file in place of such a folder is an error, and so is a folder below nothing", async () => {
  await writeFile(join(folder, "file"), "");
  for (const [target, said] of [
    ["file", /file is not a folder; /],
    ["file/inbox", /inbox is not a folder; /],
    ["nothing/inbox", /cannot be created \(ENOENT\); create it/],
  ] as const) {
    const run = await runHere(["serve", ".", "--port", "0", "--uploads", target], { cwd: folder });
    expect(run.stderr).toMatch(said);
    expect(run.status).toBe(exitCodes.usage.status);
  }
});

test("--print-config makes no folder", async () => {
  const before = await readdir(folder);
  const args = ["serve", ".", "--uploads", "new", "--save-to", "new", "--print-config"];
  expect((await runHere(args, { cwd: folder })).status).toBe(0);
  expect(await readdir(folder)).toEqual(before);
});

test("an address that others reach is named, not the one of this machine", async () => {
  const args = ["serve", ".", "--public-url", "https://files.example.com/mcp"];
  const { status, stderr } = await runHere(args, { cwd: folder });
  expect(stderr).toMatch(/^sluice: https:\/\/files\.example\.com\/mcp would open .*SLUICE_TOKEN/);
  expect(status).toBe(exitCodes.usage.status);
});
