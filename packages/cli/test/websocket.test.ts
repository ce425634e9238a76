import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { connect } from "../src/server-calls/connect.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import type { Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const big = randomBytes(8 * 1024 ** 2);
const token = "correct-horse-battery-staple";
let root = "";
let open: Served;
let guarded: Served;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-cli-ws-"));
  const files = join(root, "files");
  await mkdir(files);
  await writeFile(join(files, "big.bin"), big);
  open = await serveHere(files, ["--ws"]);
  guarded = await serveHere(files, ["--ws"], { env: { SLUICE_TOKEN: token } });
});
afterAll(async () => {
  await Promise.all([open?.end(), guarded?.end("SIGTERM")]);
  await rm(root, { recursive: true });
});

const socketUrl = ({ url }: Served): string => url.replace(/^http/, "ws");

test(
  "ls and get work over a WebSocket as over HTTP, with the token of the server",
  { tags: "slow" },
  async () => {
    for (const [served, env] of [
      [open, {}],
      [guarded, { SLUICE_TOKEN: token }],
    ] as const) {
      const listed = await runHere(["ls", socketUrl(served)], { env });
      expect([listed.status, listed.stdout]).toEqual([0, "files://local/big.bin\n"]);
      const folder = await mkdtemp(join(root, "target-"));
      const args = ["get", socketUrl(served), "files://local/big.bin", "-o", folder];
      const got = await runHere([...args, "--connections", "2"], { env });
      expect([got.status, got.stderr]).toEqual([0, expect.stringContaining("8.0 MiB")]);
      expect((await readFile(join(folder, "big.bin"))).equals(big)).toBe(true);
    }
  },
);

test("a wrong token is refused, and none goes over a network in the clear", async () => {
  for (const env of [{}, { SLUICE_TOKEN: "wrong" }]) {
    const refused = await runHere(["ls", socketUrl(guarded)], { env });
    expect(refused.status).toBe(exitCodes.denied.status);
  }
  const clear = await runHere(["ls", "ws://192.0.2.1/mcp"], { env: { SLUICE_TOKEN: token } });
  expect([clear.status === 0, clear.stderr]).toEqual([
    false,
    expect.stringContaining("wss: address"),
  ]);
});

test("an interrupt does not wait for a server that never answers", async () => {
  const stop = new AbortController();
  const reason = new Error("interrupted");
  const silent = createServer((socket) => {
    socket.on("error", () => {});
    stop.abort(reason);
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  await expect(connect(`ws://127.0.0.1:${port}/mcp`, stop)).rejects.toBe(reason);
  await new Promise((resolve) => silent.close(resolve));
});

test("without --ws there are no WebSockets", { tags: "slow" }, async () => {
  const plain = await serveHere(join(root, "files"));
  const refused = await runHere(["ls", socketUrl(plain)]);
  expect([refused.status === 0, refused.stdout]).toEqual([false, ""]);
  await plain.end();
});
