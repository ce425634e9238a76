import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { serverNamed } from "../src/server-calls/named-servers.ts";
import { runHere, serveHere } from "./run-here.ts";
import type { Run } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000 });

let root = "";
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-names-"));
  await mkdir(join(root, "config/sluice"), { recursive: true });
  vi.stubEnv("XDG_CONFIG_HOME", join(root, "config"));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(root, { recursive: true });
});

const file = (): string => join(root, "config/sluice/servers.json");
const name = (servers: object): Promise<void> => writeFile(file(), JSON.stringify({ servers }));
const run = (...args: readonly string[]): Promise<Run> =>
  runHere(args, { cwd: root, env: { FILES_TOKEN: "correct-horse" } });

test("a name stands for a URL and its headers, with variables of the environment", async () => {
  await mkdir(join(root, "files"));
  await writeFile(join(root, "files/a.txt"), "content");
  const served = await serveHere(join(root, "files"), ["--token", "correct-horse"]);
  try {
    const header = ["Authorization: Bearer ${FILES_TOKEN}"];
    await name({ mine: { url: served.url, header }, bare: { url: served.url } });
    expect(await run("cat", "mine", "a.txt")).toMatchObject({ status: 0, stdout: "content" });
    expect((await run("cat", "bare", "a.txt")).status).toBe(exitCodes.denied.status);
    // a URL is never looked for in the file
    expect((await run("ls", served.url)).status).toBe(exitCodes.denied.status);
  } finally {
    await served.end();
  }
});

test("files of a name are named from the folder of the file, and the command line adds to it", async () => {
  await name({
    lan: { url: "https://files.lan/mcp", header: ["A: 1"], cacert: "ca.pem", cert: "/c" },
  });
  const given = { header: ["B: 2"], cert: "mine.pem" };
  expect(await serverNamed("lan", given)).toEqual([
    "https://files.lan/mcp",
    {
      cacert: join(root, "config/sluice/ca.pem"),
      cert: "mine.pem",
      header: ["A: 1", "B: 2"],
      trust: [],
    },
  ]);
});

test("without a file, and for a name that it does not have, an argument is itself", async () => {
  expect(await serverNamed("lan", {})).toEqual(["lan", {}]);
  await name({ other: { url: "https://files.lan/mcp" } });
  expect(await serverNamed("lan", {})).toEqual(["lan", {}]);
});

test.each([
  ["{", /is not JSON \(/],
  ["[]", /expected object/],
  ["{}", /servers\.json: servers: /],
  ['{"servers":{"a":{}}}', /servers\.json: servers\.a\.url: /],
  ['{"servers":{"a":{"url":"ftp://x"}}}', /servers\.a\.url: is not an http, https/],
  [
    '{"servers":{"a":{"url":"https://x","token":"hunter2"}}}',
    /servers\.a: Unrecognized key: "token"/,
  ],
  [
    '{"servers":{"a":{"url":"https://x","header":"X: hunter2"}}}',
    /servers\.a\.header: .*expected array/,
  ],
  ['{"servers":{"a b":{"url":"https://x"}}}', /servers\.a b: /],
])(
  "the file %s is refused with one line that names the key, and repeats no value",
  async (text, said) => {
    await writeFile(file(), text);
    const { status, stdout, stderr } = await run("ls", "a");
    expect(stderr).toMatch(said);
    expect(stderr).toMatch(/^sluice: [^\n]+; correct [^\n]+\n$/);
    expect(stderr).not.toContain("hunter2");
    expect([status, stdout]).toEqual([exitCodes.usage.status, ""]);
  },
);
