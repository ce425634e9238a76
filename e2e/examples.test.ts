import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { formatKey, generateKey } from "@sluice/core";
import { afterEach, expect, inject, test } from "vitest";
import { sdkNames } from "./bed/clients.ts";
import { freePort, untilAnswered } from "./bed/listen.ts";
import { connectSender } from "./bed/senders.ts";

const programs = inject("programs");

let folder: string | undefined;
let server: ChildProcess | undefined;
afterEach(async () => {
  if (server && server.exitCode === null && server.kill()) await once(server, "exit");
  if (folder !== undefined) await rm(folder, { recursive: true });
});

test.each([
  ["the README", "first-server.ts", "first-client.ts"],
  ["the READMEs of the packages", "server.ts", "client.ts"],
])("the server and the client of %s move a file", async (_, serving, saving) => {
  folder = await mkdtemp(join(tmpdir(), "sluice-examples-"));
  await mkdir(join(folder, "files"));
  await mkdir(join(folder, "downloads"));
  const content = randomBytes(3_000_000);
  await writeFile(join(folder, "files/big.bin"), content);

  const endpoint = await start(`e2e/examples/${serving}`, folder);

  const { stdout } = await promisify(execFile)(
    process.execPath,
    [programs[`e2e/examples/${saving}`]!, endpoint],
    { cwd: folder, timeout: 60_000 },
  );

  expect(stdout).toContain("3000000 bytes, sha-256");
  expect(content.equals(await readFile(join(folder, "downloads/big.bin")))).toBe(true);
});

test.each(sdkNames)("the upload server of the docs asks a client of %s for a file", async (sdk) => {
  folder = await mkdtemp(join(tmpdir(), "sluice-examples-"));
  await mkdir(join(folder, "files"));
  await mkdir(join(folder, "uploads"));
  const path = join(folder, "poem.txt");
  await writeFile(path, "one\ntwo\nthree\n");
  const endpoint = await start("e2e/examples/upload-server.ts", folder);
  const client = await connectSender(sdk, endpoint, {
    onFilesRequested: ({ fields }) => ({
      action: "accept",
      files: { [fields[0]!.name]: [path] },
    }),
  });
  const { content } = await client.callTool({ name: "count_lines" });
  expect(content).toEqual([{ type: "text", text: "poem.txt has 3 lines." }]);
  await client.close();
});

test("the upload server of the docs shows its page to a client of SDK v1 that opens links alone", async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-examples-"));
  await mkdir(join(folder, "files"));
  await mkdir(join(folder, "uploads"));
  const endpoint = await start("e2e/examples/upload-server.ts", folder);
  const capabilities = { elicitation: { url: {} } };
  const client = new Client({ name: "links", version: "1" }, { capabilities });
  let page = "";
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    const response = await fetch((params as { url: string }).url);
    page = await response.text();
    return { action: "cancel" };
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  const { content } = await client.callTool({ name: "count_lines" });
  expect(content).toEqual([{ type: "text", text: "None came." }]);
  expect(page).toContain("Which text shall I count?");
  await client.close();
});

/** Starts a program of the docs in a folder; gives its endpoint. */
async function start(program: string, cwd: string): Promise<string> {
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}/mcp`;
  server = spawn(process.execPath, [programs[program]!], {
    cwd,
    env: {
      ...process.env,
      PORT: String(port),
      PUBLIC_URL: endpoint,
      SLUICE_KEYS: formatKey(generateKey()),
    },
    stdio: "inherit",
  });
  await untilAnswered(endpoint);
  return endpoint;
}
