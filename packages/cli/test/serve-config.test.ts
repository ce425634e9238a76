// `sluice serve --config`: what a file may say, and what is said of a wrong one.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadServeConfig, readServeConfig } from "../src/serve/config-file.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { listenHere, runHere } from "./run-here.ts";
import { wrongConfigurations } from "./wrong-configurations.ts";

/** A folder with a configuration, and two folders of files beside it. */
async function folderWith(text: string): Promise<{ root: string; file: string }> {
  const root = await mkdtemp(join(tmpdir(), "sluice-config-"));
  onTestFinished(() => rm(root, { recursive: true }));
  for (const name of ["a", "b"]) {
    await mkdir(join(root, name));
    await writeFile(join(root, name, `${name}.txt`), name);
  }
  const file = join(root, "sluice.json");
  await writeFile(file, text);
  return { root, file };
}

const twoMounts = `"mounts": [
  { "uri": "files://a/", "storage": "./a" }, // comments and commas at ends are fine
  { "uri": "files://b/", "storage": "\${PLACE:-b}", },
]`;

test.each(wrongConfigurations)("$fault is refused in one line", async ({ text, line, says }) => {
  const { file } = await folderWith(text);
  const args = ["serve", "--config", file, "--check"];
  const { status, stdout, stderr } = await runHere(args);
  const start = `sluice: ${file} line ${line}: `;
  expect(stderr.slice(0, start.length)).toBe(start);
  expect(stderr.slice(start.length)).toMatch(says);
  expect(stderr.match(/\n/g)).toHaveLength(1);
  expect(stderr).not.toContain("hunter2");
  expect([status, stdout]).toEqual([exitCodes.usage.status, ""]);
});

test("a right configuration passes the check, and nothing is made or started", async () => {
  const { root, file } = await folderWith(
    `{ ${twoMounts}, "uploads": { "folder": "inbox" }, "audit": "trail.log" }`,
  );
  const { status, stdout, stderr } = await runHere(["serve", "--config", file, "--check"]);
  expect(stderr).toBe(`${file} is valid\n`);
  expect([status, stdout]).toEqual([0, ""]);
  for (const name of ["inbox", "trail.log"])
    await expect(rm(join(root, name))).rejects.toThrow("ENOENT");
});

test("the check also finds what only the machine shows", async () => {
  const { root, file } = await folderWith(
    '{ "mounts": [{ "uri": "files://a/", "storage": "c" }] }',
  );
  const { status, stderr } = await runHere(["serve", "--config", file, "--check"]);
  expect(stderr).toBe(`sluice: ${join(root, "c")} is not a folder; name one that exists\n`);
  expect(status).toBe(exitCodes.usage.status);
});

test("a missing file is named", async () => {
  const { status, stderr } = await runHere(["serve", "--config", "no-such.json"]);
  expect(stderr).toBe("sluice: no-such.json cannot be read (ENOENT); name a readable file\n");
  expect(status).toBe(exitCodes.usage.status);
});

test("every key becomes an option, sizes are bytes, and paths are relative to the file", async () => {
  const { root, file } = await folderWith(`{
    ${twoMounts},
    "listen": { "host": "0.0.0.0", "port": "\${PORT}" },
    "publicUrl": "https://files.example.com/mcp",
    "origins": ["https://app.example.com"],
    "ws": true, "tools": false, "links": false, "delivery": "direct",
    "appendOnly": [".jsonl"],
    "uploads": { "folder": "inbox", "maxFile": "2G", "maxStep": "1M" },
    "saveTo": { "folder": "/srv/saved", "maxTotal": "10G" },
    "keys": "keys", "audit": false,
    "limits": { "streams": 64, "streamsPerUser": 4, "maxRead": "1M" },
    "users": { "tokens": [{ "name": "alice", "sha256": "${"AB".repeat(32)}", "scopes": ["read"] }] },
  }`);
  expect(await loadServeConfig(file, { PORT: "8080", PLACE: "" })).toEqual({
    mounts: [
      { uri: "files://a/", source: join(root, "a"), delivery: "direct" },
      { uri: "files://b/", source: join(root, "b"), delivery: "direct" },
    ],
    host: "0.0.0.0",
    port: 8080,
    publicUrl: "https://files.example.com/mcp",
    origin: ["https://app.example.com"],
    ws: true,
    tools: false,
    links: false,
    appendOnly: [".jsonl"],
    uploads: join(root, "inbox"),
    maxUpload: 2 * 2 ** 30,
    maxStep: 2 ** 20,
    saveTo: "/srv/saved",
    maxTotal: 10 * 2 ** 30,
    keys: join(root, "keys"),
    audit: false,
    limits: { streams: 64, streamsPerUser: 4, maxRead: 2 ** 20 },
    users: { tokens: [{ name: "alice", sha256: "ab".repeat(32), scopes: ["read"] }] },
  });
});

test("a variable is a value and not a part of the file", () => {
  const text = '{ "mounts": [{ "uri": "files://a/", "storage": "${PLACE}" }] }';
  const env = { PLACE: 'x", "delivery": "redirect' };
  const { mounts } = readServeConfig(text, { name: "f", env });
  expect(mounts).toEqual([{ uri: "files://a/", storage: env.PLACE }]);
});

test("a server of a file serves all of its mounts", async () => {
  const { file } = await folderWith(`{ ${twoMounts}, "listen": { "port": 0 }, "audit": false }`);
  const served = await listenHere(["serve", "--config", file]);
  const { stdout } = await runHere(["ls", served.url]);
  expect(stdout).toBe("files://a/a.txt\nfiles://b/b.txt\n");
  const { stdout: bytes } = await runHere(["cat", served.url, "files://b/b.txt"]);
  expect(bytes).toBe("b");
  const { stderr } = await served.end();
  expect(stderr).toMatch(/Serving \S+\/a\nServing \S+\/b\n/);
});

test("flags win over the file, and a source takes the place of its mounts", async () => {
  const { root, file } = await folderWith(
    `{ ${twoMounts}, "listen": { "port": 1 }, "audit": "trail.log", "tools": true }`,
  );
  const flags = ["--port", "0", "--no-audit", "--uri", "files://c/"];
  const served = await listenHere(["serve", join(root, "b"), "--config", file, ...flags]);
  const { stdout } = await runHere(["ls", served.url]);
  expect(stdout).toBe("files://c/b.txt\n");
  await served.end();
  await expect(rm(join(root, "trail.log"))).rejects.toThrow("ENOENT");
});

const alice = `"users": { "tokens": [{ "name": "a", "sha256": "${"ab".repeat(32)}", "scopes": ["read"] }] }`;

test.each([
  ["--uri without a source", "", ["--uri", "files://c/"], /--uri has no effect without a source/],
  ["settings for hosts", "", ["--print-config"], /settings for hosts name no file/],
  [
    "a token beside users",
    alice,
    ["--token", "t"],
    /--token or SLUICE_TOKEN does not go with the users of/,
  ],
  [
    "anonymous callers beside users",
    alice,
    ["--allow-anonymous"],
    /--allow-anonymous does not go with/,
  ],
  ["stdio beside users", alice, ["--stdio"], /--stdio does not go with/],
  [
    "another machine without users",
    '"listen": { "host": "0.0.0.0" }',
    [],
    /0\.0\.0\.0 would open .*; add users to \S+, or "allowAnonymous"/,
  ],
  [
    "another machine without TLS",
    `${alice}, "listen": { "host": "0.0.0.0" }`,
    [],
    /need an https address.*; add publicUrl to /,
  ],
])("%s is refused", async (_, keys, flags, says) => {
  const { file } = await folderWith(`{ ${twoMounts}, ${keys} }`);
  const { status, stderr } = await runHere(["serve", "--config", file, ...flags]);
  expect(stderr).toMatch(says);
  expect(stderr.match(/\n/g)).toHaveLength(1);
  expect(status).toBe(exitCodes.usage.status);
});

test.each([
  [["serve"], /^sluice: missing required argument 'source'; name a folder/],
  [["serve", ".", "--check"], /^sluice: --check checks a file; name it with --config/],
  [
    ["install", "cursor", ".", "--dry-run", "--", "--config", "f"],
    /^sluice: settings for hosts name no file/,
  ],
])("%j says what is missing", async (args, says) => {
  const { status, stderr } = await runHere(args);
  expect(stderr).toMatch(says);
  expect(status).toBe(exitCodes.usage.status);
});
