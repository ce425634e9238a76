import { request } from "node:http";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { listenHere, runHere, serveHere } from "./run-here.ts";
import { program, type Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const large = Buffer.alloc(300_000, new Uint8Array([0xff, 0, 1, 2, 3, 4, 5]));

let folder = "";
let behind: Served;
let bridge: Served;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-bridge-"));
  await writeFile(join(folder, "a.txt"), "one\n");
  await writeFile(join(folder, "large.bin"), large);
  behind = await serveHere(folder, [], { env: { SLUICE_TOKEN: "of-the-server" } });
  bridge = await listenHere(["bridge", "--http", "--port", "0", behind.url], {
    env: { SLUICE_TOKEN: "of-hosts", SLUICE_SERVER_TOKEN: "of-the-server" },
  });
});
afterAll(async () => {
  await bridge?.end();
  await behind?.end();
  await rm(folder, { recursive: true });
});

async function connect(url: string, mode: "legacy" | "auto", token?: string): Promise<Client> {
  const client = new Client({ name: "host", version: "1" }, { versionNegotiation: { mode } });
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
  );
  return client;
}

test.each(["legacy", "auto"] as const)(
  "hosts show their own token, the bridge its own to the server (%s)",
  async (mode) => {
    const client = await connect(bridge.url, mode, "of-hosts");
    const { resources } = await client.listResources();
    expect(resources.map(({ name }) => name).toSorted()).toEqual(["a.txt", "large.bin"]);
    const small = resources.find(({ name }) => name === "a.txt")!;
    const { contents } = await client.readResource({ uri: small.uri });
    expect(contents).toMatchObject([{ text: "one\n" }]);
    await client.close();
  },
);

/** Status of a message that is sent with these header fields, which `fetch` would not all send. */
async function statusWith(headers: Record<string, string>): Promise<number | undefined> {
  const sent = request(bridge.url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
    },
  });
  sent.end(JSON.stringify({ jsonrpc: "2.0", method: "notifications/any" }));
  const [response] = (await once(sent, "response")) as [{ statusCode?: number; resume(): void }];
  response.resume();
  return response.statusCode;
}

test("a wrong token, origin or host is refused before a message is read", async () => {
  const authorization = "Bearer of-hosts";
  // no session: the message was read
  expect(await statusWith({ authorization })).toBe(400);
  expect(await statusWith({})).toBe(401);
  // the token of the server is none of the bridge
  expect(await statusWith({ authorization: "Bearer of-the-server" })).toBe(401);
  expect(await statusWith({ authorization, origin: "https://evil.example" })).toBe(403);
  expect(await statusWith({ authorization, host: "evil.example" })).toBe(421);
});

test(
  "the bridge runs in front of a command; a signal ends it and its processes",
  { tags: "slow" },
  async () => {
    const command = [...program, "serve", folder, "--stdio", "--no-audit"];
    const local = await listenHere(["bridge", "--http", "--port", "0", "--", ...command]);
    const legacy = await connect(local.url, "legacy");
    const modern = await connect(local.url, "auto");
    for (const client of [legacy, modern])
      expect((await client.listResources()).resources).toHaveLength(2);
    const { stderr } = await local.end();
    expect(stderr).toContain("each session starts a process of its own");
    // standard error closes with the last process that has it
    expect(stderr.match(/Ending …/g)?.length).toBeGreaterThanOrEqual(1);
    await Promise.all([legacy.close(), modern.close()]);
  },
);

/** What a host reads in place of a file of 300 KB. */
async function readLarge(url: string, mode: "legacy" | "auto", token?: string): Promise<string> {
  const client = await connect(url, mode, token);
  const { resources } = await client.listResources();
  const { uri } = resources.find(({ name }) => name === "large.bin")!;
  const { contents } = await client.readResource({ uri });
  await client.close();
  return JSON.stringify(contents);
}

test.each(["legacy", "auto"] as const)(
  "a large result leaves as a link, which needs no token and outlives the session (%s)",
  async (mode) => {
    const read = await readLarge(bridge.url, mode, "of-hosts");
    expect(read.length).toBeLessThan(2_048);
    const link = /http:\/\/127\.0\.0\.1:\d+\/mcp\/d\/[\w-]{32}/.exec(read)?.[0];
    const answer = await fetch(link!);
    expect(answer.status).toBe(200);
    expect(Buffer.from(await answer.arrayBuffer()).equals(large)).toBe(true);
    // an invented link does not work
    expect((await fetch(link!.replace(/.{32}$/, "x".repeat(32)))).status).toBe(404);
  },
);

test("--no-spool leaves large results as they are, and --results-to holds them in a folder", async () => {
  const env = { SLUICE_SERVER_TOKEN: "of-the-server" };
  const plain = await listenHere(["bridge", "--http", "--port", "0", "--no-spool", behind.url], {
    env,
  });
  expect(await readLarge(plain.url, "auto")).toContain(large.toString("base64"));
  await plain.end();
  const held = await mkdtemp(join(tmpdir(), "sluice-held-"));
  const args = ["bridge", "--http", "--port", "0", "--results-to", held, behind.url];
  const holding = await listenHere(args, { env });
  expect(await readLarge(holding.url, "legacy")).toMatch(/\/mcp\/d\//);
  expect(await readdir(join(held, "held"))).toHaveLength(1);
  await holding.end();
  // what was held ends with its links
  expect(await readdir(held)).toEqual([]);
  await rm(held, { recursive: true });
});

test("a server that is away is named to the host", async () => {
  const local = await listenHere(["bridge", "--http", "--port", "0", "http://127.0.0.1:9/mcp"]);
  await expect(connect(local.url, "legacy")).rejects.toThrow(
    /cannot reach http:\/\/127.0.0.1:9: .*bad port/,
  );
  await local.end();
});

test.each([
  [["--host", "0.0.0.0"], /0\.0\.0\.0 would open the server behind to other machines/],
  [["--public-url", "https://h.example/mcp"], /would open the server behind to other machines/],
  [["--host", "0.0.0.0", "--token", "t"], /need an https address/],
  [["--public-url", "http://h.example/mcp", "--token", "t"], /must be an https address/],
  [["--save-to", "x"], /--save-to has no effect with --http/],
  [["--no-spool", "--max-held", "1G"], /--max-held has no effect with --no-spool/],
])("sluice bridge --http %j is refused", async (args, words) => {
  const { status, stderr } = await runHere(["bridge", "--http", ...args, behind.url]);
  expect(stderr).toMatch(words);
  expect(status).toBe(2);
});

test("a malformed header is a mistake of the command line, and is not repeated", async () => {
  const { status, stderr } = await runHere(["bridge", behind.url, "--header", "secret"]);
  expect(status).toBe(2);
  expect(stderr).toContain("Name: value");
  expect(stderr).not.toContain("secret");
});

test.each([
  "ftp://u:secret@h.example/mcp",
  "wss://h.example/secret",
  "htps://h.example/mcp?key=secret",
  "https:/u:secret@h.example/mcp",
  "u:secret@h.example/mcp",
  "u:secret@h.example:3000",
])("sluice bridge %s is run as no program, and not repeated", async (address) => {
  const { status, stderr } = await runHere(["bridge", address]);
  expect(stderr).toMatch(/neither an http: nor https: URL nor a program; write it like https:/);
  expect(stderr).not.toContain("secret");
  expect(status).toBe(2);
});

test.each(["localhost:3000/mcp", "mcp.acme.com/mcp", "acme:3000", "[::1]:3000"])(
  "sluice bridge %s is told how to write the address",
  async (address) => {
    const { status, stderr } = await runHere(["bridge", address]);
    expect(stderr).toMatch(/is neither the address of a server nor a program; write it like http/);
    expect(stderr).toContain(`://${address}`);
    expect(status).toBe(2);
  },
);

test.each([
  [["--save-to", "/proc/nope"], /--save-to \/proc\/nope cannot be created/],
  [["--save-to", "/dev/null"], /--save-to \/dev\/null is not a folder; name another one/],
  [["--send-from", "/proc/nope"], /--send-from \/proc\/nope is not a folder; name one that exists/],
  [["--port", "1"], /--port has no effect without --http/],
  [["--origin", "http://localhost:6274"], /--origin has no effect without --http/],
  [["--http", "--origin", "http://localhost:6274/"], /Use an origin without a path/],
  [["--token", "a", "--server-token", "b"], /are the same without --http/],
])("sluice bridge %j is refused", async (args, words) => {
  const { status, stderr } = await runHere(["bridge", ...args, behind.url]);
  expect(stderr).toMatch(words);
  expect(status).toBe(2);
});
