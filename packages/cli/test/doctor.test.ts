import { once } from "node:events";
import { createServer } from "node:http";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import { freePort, type Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000 });

let folder = "";
let served: Served;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-doctor-"));
  await writeFile(join(folder, "a.txt"), "content");
  served = await serveHere(folder, [], { env: { SLUICE_TOKEN: "right" } });
});
afterAll(async () => {
  await served.end();
  await rm(folder, { recursive: true });
});

const doctor = (...args: string[]) => runHere(["doctor", ...args]);

test("a healthy server is said to be one, with the exit code 0", { tags: "slow" }, async () => {
  const run = await doctor(served.url, "--token", "right", "--watch", "1");
  expect(run).toMatchObject({ status: exitCodes.ok.status, stderr: "" });
  expect(run.stdout).toMatch(/ speaks MCP 20\S+ and streams its resources\nno problems found\n$/);
});

test("a finding is a line, and the exit code is 1", async () => {
  const run = await doctor(served.url);
  expect(run.stdout).toMatch(/^sign-in: The server requires a token \(401\): .*\.\n$/);
  expect(run.stderr).toBe(
    "sluice: one problem found; fix it and run again: what depends on it was not checked\n",
  );
  expect(run.status).toBe(exitCodes.failed.status);
});

test("--json prints one object, and --header is sent", async () => {
  const args = ["--json", "--header", "Authorization: Bearer wrong"];
  const { stdout, status } = await doctor(served.url, ...args);
  expect(JSON.parse(stdout)).toEqual({
    findings: [{ cause: "sign-in", message: expect.stringContaining("get a new one") }],
    isComplete: false,
  });
  expect(status).toBe(exitCodes.failed.status);
});

test("a port that nothing listens on is named", async () => {
  const { stdout } = await doctor(`http://127.0.0.1:${await freePort()}/mcp`);
  expect(stdout).toMatch(/^connection: Nothing listens at 127\.0\.0\.1:\d+: /);
});

test("a web server that rejects POST is not taken for an endpoint", async () => {
  const pages = createServer((_request, response) =>
    response.writeHead(501, { "content-type": "text/html" }).end("<p>Unsupported method</p>"),
  );
  pages.listen(0, "127.0.0.1");
  await once(pages, "listening");
  const { port } = Object(pages.address());
  const { stdout } = await doctor(`http://127.0.0.1:${port}/mcp`);
  pages.close();
  expect(stdout).toMatch(/^endpoint: \/mcp takes no POST \(501\), /);
});

test.each([
  [["nowhere"], exitCodes.usage.status, /not a server URL/],
  [["ftp://a.example/"], exitCodes.usage.status, /not a server URL/],
  [["http://a.example/mcp", "--header", "secret"], exitCodes.usage.status, /--header is malformed/],
  [["http://a.example/mcp", "--trust", "x"], exitCodes.usage.status, /--trust/],
  [["http://a.example/mcp", "--token", "t"], exitCodes.refused.status, /in the clear/],
])("%j is refused before anything is sent", async (args, status, message) => {
  const run = await doctor(...args);
  expect(run.status).toBe(status);
  expect(run.stderr).toMatch(message);
  expect(run.stderr).not.toContain("secret");
});
