// @module-tag slow
// Servers without a fault, of Sluice and not: the doctor finds nothing, however often it is asked.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { diagnose } from "@sluice/bridge";
import { examine } from "@sluice/bridge/internal";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { serveHere } from "../../packages/cli/test/run-here.ts";
import type { Served } from "../../packages/cli/test/sluice.ts";
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

test.concurrent("nothing is found at the Everything server of the MCP project", async ({
  onTestFinished,
}) => {
  const port = await freePort();
  const fromBridge = createRequire(import.meta.resolve("@sluice/bridge"));
  const manifest = fromBridge.resolve("@modelcontextprotocol/server-everything/package.json");
  const args = [join(dirname(manifest), "dist", "index.js"), "streamableHttp"];
  const env = { ...process.env, PORT: String(port) };
  const child = spawn(process.execPath, args, { env, stdio: "ignore" });
  const ended = once(child, "close");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const url = `http://127.0.0.1:${port}/mcp`;
  await untilAnswered(url);
  const { server } = await examine(new URL(url), options);
  expect(server).toMatchObject({ hasResources: true, hasStreaming: false });
  await expectHealthy(url);
});

const tokens = [undefined, "a-token-of-this-test"];
const served = new Map<string | undefined, Served>();
let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-doctor-"));
  await writeFile(join(folder, "a.bin"), content);
  // one after the other: each has the environment of this process while it starts
  for (const token of tokens)
    served.set(token, await serveHere(folder, [], { env: { SLUICE_TOKEN: token ?? "" } }));
});
afterAll(async () => {
  for (const each of served.values()) await each.end();
  await rm(folder, { recursive: true });
});

test.concurrent.each(tokens)(
  "nothing is found at sluice serve with the token %s",
  async (token) => {
    const { url } = served.get(token)!;
    const { server } = await examine(new URL(url), { ...options, token });
    expect(server).toMatchObject({ hasResources: true, hasStreaming: true });
    await expectHealthy(url, token);
    const found = await diagnose(new URL(url), { ...options, token: "another" });
    expect(found.map(({ cause }) => cause)).toEqual(token === undefined ? [] : ["sign-in"]);
  },
);

test.concurrent.each([false, true])(
  "nothing is found at a site with sessions: %s",
  async (sessions) => {
    await using site = await startSite({
      files: { "a.bin": content, empty: "", "b.txt": "b" },
      sessions,
    });
    await expectHealthy(site.url);
  },
);

test.concurrent("nothing is found at a site without files", async () => {
  await using site = await startSite();
  await expectHealthy(site.url);
});

test.skipIf(!hasNginx).concurrent("nothing is found behind nginx as its page has it", async () => {
  const page = await documentedSite("guides/deploy/nginx.md");
  await using site = await startSite({
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
  await expectHealthy(site.url);
});

test.concurrent("a server that is slow with everything is not held to buffer", async () => {
  await using site = await startSite({
    files: { "a.bin": content },
    front: (target) =>
      startFaultyProxy(target, {
        async passOn(_, __, { method }) {
          if (method === "GET") await new Promise((resolve) => setTimeout(resolve, 1_200));
          return false;
        },
      }),
  });
  expect(await diagnose(new URL(site.url), options)).toEqual([]);
});
