// @module-tag slow
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { openPutRecord } from "../src/server-calls/put-record.ts";
import { runHere, serveHere } from "./run-here.ts";
import { freePort, sluice, type Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const big = randomBytes(5 * 2 ** 20 + 3);

/** A proxy that cuts or stalls a connection after a number of request bytes. */
async function createLine(target: number) {
  const sockets = new Set<Socket>();
  let carriedInAll = 0;
  let stopped: (() => void) | undefined;
  const line = {
    port: 0,
    cutAfter: Infinity,
    stopAfter: Infinity,
    cuts: 0,
    stopped: new Promise<void>((resolve) => (stopped = resolve)),
    carried: () => carriedInAll,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        client.destroy();
        upstream.destroy();
      });
    }
    upstream.pipe(client);
    let carried = 0;
    client.on("data", (chunk) => {
      carried += chunk.length;
      carriedInAll += chunk.length;
      if (carried > line.stopAfter) {
        client.pause();
        return stopped?.();
      }
      if (!upstream.write(chunk)) {
        client.pause();
        upstream.once("drain", () => client.resume());
      }
      if (carried < line.cutAfter) return;
      line.cuts++;
      client.resetAndDestroy();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  line.port = (server.address() as AddressInfo).port;
  return line;
}

let root = "";
let inbox = "";
let line: Awaited<ReturnType<typeof createLine>>;
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-put-"));
  inbox = join(root, "inbox");
  await mkdir(join(root, "files"));
  await mkdir(inbox);
  await writeFile(join(root, "big.bin"), big);
  for (let triesLeft = 3; ; triesLeft--) {
    const port = await freePort();
    line = await createLine(port);
    const address = ["--port", `${port}`, "--public-url", `http://127.0.0.1:${line.port}/mcp`];
    try {
      served = await serveHere(join(root, "files"), [...address, "--uploads", inbox]);
      return;
    } catch (error) {
      line.close();
      // another process may have taken the port meanwhile
      if (triesLeft === 1) throw error;
    }
  }
});
afterAll(async () => {
  line?.close();
  await served?.end();
  await rm(root, { recursive: true });
});

const args = (): string[] => ["put", served.url, "big.bin", "--json"];
const options = () => ({ cwd: root, env: { XDG_STATE_HOME: join(root, "state") } });

async function saved(stdout: string): Promise<Buffer> {
  const { name } = JSON.parse(stdout).structuredContent as { name: string };
  return readFile(join(inbox, name));
}

test("a line that breaks again and again costs time, and nothing else", async () => {
  line.cutAfter = 2.2 * 2 ** 20;
  const { status, stdout, stderr } = await runHere(args(), options());
  line.cutAfter = Infinity;
  expect([status, stderr]).toEqual([0, expect.stringContaining("sha256")]);
  expect(line.cuts).toBeGreaterThan(1);
  expect(big.equals(await saved(stdout))).toBe(true);
});

test("the next run resumes where Ctrl-C stopped this one", async () => {
  line.stopAfter = 4 * 2 ** 20;
  const first = await sluice(args(), {
    ...options(),
    onStart: (child) => void line.stopped.then(() => child.kill("SIGINT")),
  });
  line.stopAfter = Infinity;
  expect(first.stderr).toMatch(/sluice: .*[KM]iB are sent: run the same command again.*\n$/);
  expect([first.status, first.stdout]).toEqual([exitCodes.interrupted.status, ""]);
  const records = join(root, "state", "sluice", "uploads");
  expect(await readdir(records)).toHaveLength(1);

  const before = line.carried();
  const second = await runHere(args(), options());
  expect(second.status).toBe(0);
  expect(big.equals(await saved(second.stdout))).toBe(true);
  // a whole file would be more
  expect(line.carried() - before).toBeLessThan(big.length);
  expect(await readdir(records)).toEqual([]);
});

test("a server whose disk is full keeps nothing, the sender is told so, and once there is room the next run sends it", async (context) => {
  const full = await mkdtemp(join(tmpdir(), "sluice-full-"));
  onTestFinished(() => rm(full, { recursive: true }));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m", "tmpfs", full], { stdio: "ignore" });
  } catch {
    context.skip("this process may not mount a small file system");
    return;
  }
  onTestFinished(() => void execFileSync("umount", ["-l", full], { stdio: "ignore" }));
  const small = await serveHere(join(root, "files"), ["--uploads", full]);
  onTestFinished(async () => void (await small.end()));
  // room for some of the file, and none for the rest
  await writeFile(join(full, "ballast"), randomBytes(20 * 2 ** 20));
  const run = () => runHere(["put", small.url, "big.bin"], options());
  const first = await run();
  expect(first.stderr).toMatch(/sluice: .*no room.*; ask the server's operator to make room\n$/);
  expect([first.status, first.stdout]).toEqual([exitCodes.target.status, ""]);
  const records = join(root, "state", "sluice", "uploads");
  expect(await readdir(records)).toEqual([]);
  const names = await readdir(full, { recursive: true });
  expect(names.filter((name) => /\.tmp$|bytes-|part-|step-|plan-/.test(name))).toEqual([]);

  await rm(join(full, "ballast"));
  const second = await run();
  expect(second.status).toBe(0);
  expect(second.stdout).toMatch(/^Saved as big\.bin, /);
  expect(big.equals(await readFile(join(full, "big.bin")))).toBe(true);
  expect(await readdir(records)).toEqual([]);
});

test("an interrupted upload is resumed only by its owner, and for that server and version of the file", async () => {
  vi.stubEnv("XDG_STATE_HOME", join(root, "records"));
  onTestFinished(() => void vi.unstubAllEnvs());
  const file = join(root, "small.bin");
  await writeFile(file, "version 1");
  const begun = { uri: "mcp-file:x", location: "http://127.0.0.1/x", auth: "self" } as const;
  const record = await openPutRecord("http://a/mcp", file);
  expect(record.begun).toBeUndefined();
  await record.remember(begun);
  const [name = ""] = await readdir(join(root, "records", "sluice", "uploads"));
  const { mode } = await stat(join(root, "records", "sluice", "uploads", name));
  expect(mode & 0o777).toBe(0o600);
  expect((await openPutRecord("http://a/mcp", file)).begun).toEqual(begun);
  expect((await openPutRecord("http://b/mcp", file)).begun).toBeUndefined();
  // a link in its place says nothing of it
  const kept = join(root, "records", "sluice", "uploads", name);
  await rename(kept, join(root, "record.json"));
  await symlink(join(root, "record.json"), kept);
  expect((await openPutRecord("http://a/mcp", file)).begun).toBeUndefined();
  await rename(join(root, "record.json"), kept);
  expect((await openPutRecord("http://a/mcp", file)).begun).toEqual(begun);
  await writeFile(file, "version 2");
  expect((await openPutRecord("http://a/mcp", file)).begun).toBeUndefined();
});

test("one process goes on with what another left of an upload, and none with what a running one sends", async () => {
  vi.stubEnv("XDG_STATE_HOME", join(root, "left"));
  onTestFinished(() => void vi.unstubAllEnvs());
  const file = join(root, "small.bin");
  await writeFile(file, "version 1");
  const begun = { uri: "mcp-file:x", location: "http://127.0.0.1/x", auth: "self" } as const;
  const mine = await openPutRecord("http://a/mcp", file);
  await mine.remember(begun);
  const records = join(root, "left", "sluice", "uploads");
  const [name = ""] = await readdir(records);
  const of = (pid: number): string => join(records, name.replace(`.${process.pid}.`, `.${pid}.`));

  await rename(join(records, name), of(process.ppid));
  expect((await openPutRecord("http://a/mcp", file)).begun).toBeUndefined();
  await mine.forget();
  expect(await readdir(records)).toHaveLength(1);

  // no process has so high a number
  await rename(of(process.ppid), of(2 ** 22 + 1));
  expect((await openPutRecord("http://a/mcp", file)).begun).toEqual(begun);
  expect(await readdir(records)).toEqual([name]);
});
