import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import { freePort, program, runCommand, serve, sluice, type Run, type Served } from "./sluice.ts";
import { createStallingProxy } from "./stalling-proxy.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const deep = process.env["SLUICE_DEEP"] !== undefined;
if (!deep) console.info("one umask of three: the others run with SLUICE_DEEP");
const big = randomBytes(16 * 1024 ** 2);
const small = randomBytes(2 * 1024 ** 2);
const token = "correct-horse-battery-staple";
const uri = "files://local/big.bin";
let root = "";
let files = "";
let served: Served;
let guarded: Served;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-cli-"));
  files = join(root, "files");
  await mkdir(join(files, "many"), { recursive: true });
  await writeFile(join(files, "big.bin"), big);
  await writeFile(join(files, "small.bin"), small);
  for (const name of ["big.bin", "small.bin"]) await utimes(join(files, name), 1e9, 1e9);
  // six pages and some more
  for (let i = 0; i < 600; i++) writeFileSync(join(files, "many", `${i}`), "");
  served = await serveHere(files);
  guarded = await serveHere(files, [], { env: { SLUICE_TOKEN: token } });
});
afterAll(async () => {
  await Promise.all([served?.end(), guarded?.end("SIGTERM")]);
  await rm(root, { recursive: true });
});

/** A new folder to download into. */
function target(): Promise<string> {
  return mkdtemp(join(root, "target-"));
}

// oxlint-disable-next-line no-control-regex -- finding escape sequences is the point
const escape = /[\u001b\r]/;

test("ls prints every page, one URI a line, and nothing else", { tags: "slow" }, async () => {
  const { status, stdout, stderr } = await runHere(["ls", served.url]);
  expect(status).toBe(0);
  expect(stderr).toBe("");
  const lines = stdout.trimEnd().split("\n");
  expect(new Set(lines).size).toBe(602);
  expect(lines).toContain("files://local/big.bin");
  expect(lines).toContain("files://local/many/599");
});

test("ls --json prints one object a line", async () => {
  const { stdout } = await runHere(["ls", served.url, "--json"]);
  const resources = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(resources).toHaveLength(602);
  expect(resources).toContainEqual({
    uri: "files://local/big.bin",
    name: "big.bin",
    mimeType: "application/octet-stream",
    size: big.length,
    lastModified: "2001-09-09T01:46:40.000Z",
  });
});

test("ls ends quietly when its reader has seen enough", { tags: "slow" }, async () => {
  const pipeline = `"$@" | head -n 1; echo "status \${PIPESTATUS[0]}"`;
  const command = ["bash", "-c", pipeline, "bash", ...program, "ls", served.url];
  const { stdout, stderr } = await runCommand(command);
  expect(stdout).toMatch(/^files:\/\/local\/.*\nstatus 0\n$/);
  expect(stderr).toBe("");
});

test("notes that are not read do not end a download", { tags: "slow" }, async () => {
  const cwd = await target();
  // standard error is a pipe whose reader is gone before the first note
  const pipeline = `exec 3>&1; { sleep 0.2; "$@" >&3; echo "status $?" >&3; } 2>&1 | true`;
  const command = ["bash", "-c", pipeline, "bash", ...program, "get", served.url];
  const { stdout } = await runCommand([...command, "files://local/small.bin"], { cwd });
  expect(stdout).toBe("small.bin\nstatus 0\n");
});

/** One run in a folder of its own with each umask: what it printed and what it left are rules of their own. */
const runs = new Map<string, Promise<{ readonly cwd: string; readonly run: Run }>>();
function gotWith(umask: string) {
  const run = async () => {
    const cwd = await target();
    const command = ["sh", "-c", `umask ${umask}; exec "$@"`, "sh", ...program];
    return { cwd, run: await runCommand([...command, "get", served.url, uri], { cwd }) };
  };
  if (!runs.has(umask)) runs.set(umask, run());
  return runs.get(umask)!;
}

test(
  "get saves the file, prints its path, and draws nothing without a terminal [SEP-2532/plan/cli-to-disk]",
  { tags: "slow" },
  async () => {
    const { cwd, run } = await gotWith("077");
    const { status, stdout, stderr } = run;
    expect(status).toBe(0);
    expect(stdout).toBe("big.bin\n");
    expect(stderr).toContain(createHash("sha256").update(big).digest("hex"));
    expect(stderr).not.toMatch(escape);
    expect(big.equals(await readFile(join(cwd, "big.bin")))).toBe(true);
    expect(readdirSync(cwd)).toEqual(["big.bin"]);
  },
);

test("get --json prints one object and no other text", async () => {
  const path = join(await target(), "copy");
  const args = ["get", served.url, "files://local/big.bin", "-o", path, "--json"];
  const { status, stdout, stderr } = await runHere([...args, "--connections", "4"]);
  expect(status).toBe(0);
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual({
    uri: "files://local/big.bin",
    mode: "downloadUrl",
    path,
    size: big.length,
    sha256: createHash("sha256").update(big).digest("hex"),
    verified: "length",
    resumedBytes: 0,
  });
});

test.each([
  ["077", 0o600],
  ...(deep
    ? ([
        ["022", 0o644],
        ["002", 0o664],
      ] as const)
    : []),
] as const)(
  "a file that was got has the permissions of umask %s, and the time of the one that is served",
  async (mask, mode) => {
    const { cwd, run } = await gotWith(mask);
    expect(run.status).toBe(0);
    const { mode: found, mtimeMs } = await stat(join(cwd, "big.bin"));
    expect([found & 0o777, mtimeMs]).toEqual([mode, 1e12]);
  },
);

test(
  "a file that is larger than the process may write says which limit to raise",
  { tags: "slow" },
  async () => {
    const cwd = await target();
    const command = ["bash", "-c", `ulimit -f 1024; exec "$@"`, "bash", ...program];
    const { status, stderr } = await runCommand(
      [...command, "get", served.url, "files://local/small.bin"],
      { cwd },
    );
    expect(stderr).toMatch(/^sluice: .*; pass -o .*ulimit -f.*\n$/);
    expect(status).toBe(exitCodes.target.status);
    expect(readdirSync(cwd)).toEqual([]);
  },
);

test(
  "a disk that is full says what is missing, and the next run goes on when there is room",
  { tags: "slow" },
  async (context) => {
    const disk = await target();
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], { stdio: "ignore" });
    } catch {
      context.skip("this process may not mount a small file system");
      return;
    }
    const proxy = await createStallingProxy();
    proxy.target = await freePort();
    const address = ["--port", String(proxy.target), "--public-url", `${proxy.origin}/mcp`];
    const behind = await serveHere(files, address);
    const args = ["get", behind.url, "files://local/big.bin", "-o", disk];
    try {
      proxy.bytesLeft = 12 * 1024 ** 2;
      const first = runHere(args);
      await proxy.stalled;
      const hidden = (): number =>
        readdirSync(disk).reduce((sum, name) => sum + statSync(join(disk, name)).size, 0);
      await expect.poll(hidden).toBeGreaterThan(8 * 1024 ** 2);
      execFileSync("sh", ["-c", `cat /dev/zero > ${disk}/filler || true`], { stdio: "ignore" });
      proxy.bytesLeft = Infinity;
      proxy.cut();
      const { status, stderr } = await first;
      expect(stderr).toMatch(
        /^sluice: .*full.* bytes are kept, \d+ are missing; make room and run .*again\n$/,
      );
      expect(status).toBe(exitCodes.target.status);
      await rm(join(disk, "filler"));
      const second = await runHere([...args, "--json"]);
      expect(second.status).toBe(0);
      expect(JSON.parse(second.stdout).resumedBytes).toBeGreaterThan(4 * 1024 ** 2);
      expect(readdirSync(disk)).toEqual(["big.bin"]);
    } finally {
      proxy.close();
      await behind.end();
      execFileSync("umount", ["-l", disk], { stdio: "ignore" });
    }
  },
);

test("a folder that is named with a slash is made", async () => {
  const folder = await target();
  const args = ["get", served.url, "files://local/small.bin", "-o", "new/copies/"];
  const { status, stdout } = await runHere(args, { cwd: folder });
  expect([status, stdout]).toEqual([0, "new/copies/small.bin\n"]);
  expect(small.equals(await readFile(join(folder, "new/copies/small.bin")))).toBe(true);
});

test("get does not touch a file that is there, unless forced", async () => {
  const folder = await target();
  const path = join(folder, "small.bin");
  await writeFile(path, "mine");
  const args = ["get", served.url, "files://local/small.bin", "-o", folder];
  const refused = await runHere(args);
  expect(refused.status).toBe(exitCodes.target.status);
  expect(refused.stderr).toMatch(/^sluice: .*--force.*\n$/);
  expect(await readFile(path, "utf8")).toBe("mine");
  expect(readdirSync(folder)).toEqual(["small.bin"]);

  const forced = await runHere([...args, "--force"]);
  expect(forced.status).toBe(0);
  expect(small.equals(await readFile(path))).toBe(true);
});

test.each([
  ["a resource that is not there", ["files://local/nothing"], exitCodes.notFound, "sluice ls"],
  [
    "a resource over the limit",
    ["files://local/big.bin", "--max-size", "1M"],
    exitCodes.refused,
    "--max-size",
  ],
  [
    "a folder that is not there",
    ["files://local/big.bin", "-o", "/nowhere/at/all"],
    exitCodes.target,
    "-o",
  ],
] as const)("%s has its own exit code and advice", async (_, args, { status }, advice) => {
  const cwd = await target();
  const run = await runHere(["get", served.url, ...args], { cwd });
  expect(run.stderr).toMatch(/^sluice: .+\n$/);
  expect(run.stderr).toContain(advice);
  expect(run.status).toBe(status);
  expect(run.stdout).toBe("");
  expect(readdirSync(cwd)).toEqual([]);
});

test(
  "a token lets in, its lack or another one does not, and none is ever printed",
  { tags: "slow" },
  async () => {
    const given = [
      await runHere(["ls", guarded.url], { env: { SLUICE_TOKEN: token } }),
      await runHere(["ls", guarded.url]),
      await runHere(["get", guarded.url, "files://local/small.bin", "--token", `${token}x`]),
    ] as const;
    expect(given.map(({ status }) => status)).toEqual([0, 4, 4]);
    expect(given[1].stderr).toMatch(/^sluice: .*SLUICE_TOKEN.*\n$/);
    for (const { stdout, stderr } of given) expect(stdout + stderr).not.toContain(token);
    const path = join(await target(), "copy");
    const got = await runHere(["get", guarded.url, "files://local/small.bin", "-o", path], {
      env: { SLUICE_TOKEN: token },
    });
    expect(got.status).toBe(0);
    expect(existsSync(path)).toBe(true);
  },
);

test("the next run resumes where Ctrl-C stopped this one", { tags: "slow" }, async () => {
  const proxy = await createStallingProxy();
  proxy.target = await freePort();
  const address = ["--port", String(proxy.target), "--public-url", `${proxy.origin}/mcp`];
  const behind = await serveHere(files, address);
  const folder = await target();
  const args = ["get", behind.url, "files://local/big.bin", "-o", folder];
  try {
    proxy.bytesLeft = 12 * 1024 ** 2;
    const first = await sluice(args, {
      onStart: (child) => void proxy.stalled.then(() => child.kill("SIGINT")),
    });
    expect(first.stderr).toMatch(/^sluice: .*MiB are kept: run the same command again.*\n$/);
    expect(first.status).toBe(exitCodes.interrupted.status);
    expect(first.stdout).toBe("");
    expect(existsSync(join(folder, "big.bin"))).toBe(false);

    proxy.bytesLeft = Infinity;
    const second = await runHere([...args, "--json"]);
    expect(second.status).toBe(0);
    expect(JSON.parse(second.stdout).resumedBytes).toBeGreaterThan(1024 ** 2);
    expect(big.equals(await readFile(join(folder, "big.bin")))).toBe(true);
    expect(readdirSync(folder)).toEqual(["big.bin"]);
  } finally {
    proxy.close();
    await behind.end();
  }
});

test(
  "serve prints its address alone on standard output, and ends cleanly on a signal",
  { tags: "slow" },
  async () => {
    const other = await serve(files);
    const { port } = new URL(other.url);
    const taken = await runHere(["serve", files, "--port", port]);
    expect(taken.status).toBe(exitCodes.network.status);
    expect(taken.stderr).toMatch(/^sluice: .*EADDRINUSE.*--port.*\n$/);
    const { status, stdout, stderr } = await other.end("SIGTERM");
    expect(status).toBe(0);
    expect(stdout).toBe(`${other.url}\n`);
    expect(stderr).not.toMatch(escape);
  },
);

test(
  "a second signal ends the server at once, also when it is another one",
  { tags: "slow" },
  async () => {
    const other = await serve(files);
    const url = new URL(other.url);
    const headers = { expect: "100-continue", "content-length": 2 };
    const held = request(url, { method: "POST", headers, agent: false });
    const cut = new Promise((resolve) => void held.on("error", resolve));
    held.flushHeaders();
    await once(held, "continue");
    void other.end("SIGINT");
    await expect.poll(() => isOpen(url)).toBe(false);
    // it does not wait for the rest of the request
    expect(await other.end("SIGTERM")).toMatchObject({ status: 143 });
    expect(await cut).toMatchObject({ code: "ECONNRESET" });
  },
);

/** Whether connections are accepted there. */
function isOpen({ hostname, port }: URL): Promise<boolean> {
  const socket = connect(Number(port), hostname);
  const opened = once(socket, "connect").then(
    () => true,
    () => false,
  );
  return opened.finally(() => socket.destroy());
}

test("a web page of another site cannot reach the folder through DNS rebinding", async () => {
  const headers = { host: `evil.example:${new URL(served.url).port}` };
  const probe = request(served.url, { method: "POST", headers }).end();
  const [response] = (await once(probe, "response")) as [IncomingMessage];
  response.resume();
  expect(response.statusCode).toBe(421);
});
