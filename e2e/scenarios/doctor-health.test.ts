// Servers without a fault, of Sluice and not: the doctor finds nothing, however often it is asked.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { diagnose, examine } from "@sluice/bridge";
import { expect, inject, onTestFinished, test, vi } from "vitest";
import { adapted, documentedSite, hasNginx, startNginx } from "../bed/nginx.ts";
import { startFaultyProxy } from "../bed/faulty-proxy.ts";
import { freePort, untilAnswered } from "../bed/listen.ts";
import { startSite } from "../bed/site.ts";

const runs = process.env["SLUICE_DEEP"] ? 100 : 2;
vi.setConfig({ testTimeout: 30_000 * runs });

const content = Buffer.alloc(300_000, "0123456789");
const options = { watchMs: 200 };

async function expectHealthy(url: string, token?: string): Promise<void> {
  for (let run = 0; run < runs; run++)
    expect(await diagnose(new URL(url), { ...options, token })).toEqual([]);
}

/** Runs a program until the test ends. */
async function start(
  [script = "", ...args]: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...process.env, ...env },
    stdio: "ignore",
  });
  const ended = once(child, "close");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
}

test("nothing is found at the Everything server of the MCP project", async () => {
  const port = await freePort();
  const fromBridge = createRequire(import.meta.resolve("@sluice/bridge"));
  const manifest = fromBridge.resolve("@modelcontextprotocol/server-everything/package.json");
  await start([join(dirname(manifest), "dist", "index.js"), "streamableHttp"], {
    PORT: String(port),
  });
  const url = `http://127.0.0.1:${port}/mcp`;
  await untilAnswered(url);
  const { server } = await examine(new URL(url), options);
  expect(server).toMatchObject({ hasResources: true, hasStreaming: false });
  await expectHealthy(url);
});

test.each([undefined, "a-token-of-this-test"])(
  "nothing is found at sluice serve with the token %s",
  async (token) => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-doctor-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    await writeFile(join(folder, "a.bin"), content);
    const port = await freePort();
    const program = inject("programs")["packages/cli/src/main.ts"]!;
    const args = [program, "serve", folder, "--port", String(port), "--no-audit"];
    await start(args, { SLUICE_TOKEN: token ?? "" });
    const url = `http://127.0.0.1:${port}/mcp`;
    await untilAnswered(url);
    const { server } = await examine(new URL(url), { ...options, token });
    expect(server).toMatchObject({ hasResources: true, hasStreaming: true });
    await expectHealthy(url, token);
    const found = await diagnose(new URL(url), { ...options, token: "another" });
    expect(found.map(({ cause }) => cause)).toEqual(token === undefined ? [] : ["sign-in"]);
  },
);

test.each([false, true])("nothing is found at a site with sessions: %s", async (sessions) => {
  const site = await startSite({ files: { "a.bin": content, empty: "", "b.txt": "b" }, sessions });
  onTestFinished(() => site[Symbol.asyncDispose]());
  await expectHealthy(site.url);
});

test("nothing is found at a site without files", async () => {
  const site = await startSite();
  onTestFinished(() => site[Symbol.asyncDispose]());
  await expectHealthy(site.url);
});

test.skipIf(!hasNginx)("nothing is found behind nginx as its page has it", async () => {
  const page = await documentedSite("guides/deploy/nginx.md");
  const site = await startSite({
    files: { "a.bin": content },
    front: (target) =>
      startNginx((port) =>
        adapted(page, {
          "listen 8000": `listen 127.0.0.1:${port}`,
          "127.0.0.1:8001": `127.0.0.1:${target()}`,
          "  server 127.0.0.1:8002 max_fails=0;\n": "",
          "  server 127.0.0.1:8003 max_fails=0;\n": "",
        }),
      ),
  });
  onTestFinished(() => site[Symbol.asyncDispose]());
  await expectHealthy(site.url);
});

test("a server that is slow with everything is not held to buffer", async () => {
  const site = await startSite({
    files: { "a.bin": content },
    front: (target) =>
      startFaultyProxy(target, {
        async passOn(_, __, { method }) {
          if (method === "GET") await new Promise((resolve) => setTimeout(resolve, 1_200));
          return false;
        },
      }),
  });
  onTestFinished(() => site[Symbol.asyncDispose]());
  expect(await diagnose(new URL(site.url), options)).toEqual([]);
});
