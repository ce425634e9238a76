// @module-tag slow
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { createHost } from "./bridged.ts";
import { startLegacyPeer, startModernPeer, type Peer } from "./peers.ts";

const program = (name: string): string => inject("programs")[name]!;
const readme = "packages/bridge/test/bridge-process.ts";
const command = "packages/cli/src/main.ts";

test("the README's program is a server for a host", async () => {
  const peer = await startLegacyPeer();
  const args = [program(readme), peer.url.href];
  const client = createHost("modern");
  await client.connect(new StdioClientTransport({ command: process.execPath, args }));
  expect((await client.listTools()).tools.length).toBeGreaterThan(5);
  await client.close();
});

describe("sluice bridge in front of a URL", () => {
  let peer: Peer;
  let child: ChildProcess;
  let answers: AsyncIterator<string>;
  beforeAll(async () => {
    peer = await startModernPeer(0, afterAll);
    const args = [program(command), "bridge", peer.url.href, "--header", "X-Team: a:b"];
    const env = { ...process.env, SLUICE_TOKEN: "secret" };
    child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "ignore"], env });
    answers = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  });
  afterAll(() => void child.kill("SIGKILL"));

  const write = (message: object): void =>
    void child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  async function ask(message: object): Promise<any> {
    write(message);
    return JSON.parse((await answers.next()).value as string);
  }

  test("sluice bridge takes a URL, a token and headers", async () => {
    const params = { protocolVersion: "2025-11-25", capabilities: {} };
    await ask({ id: 1, method: "initialize", params });
    write({ method: "notifications/initialized" });
    const { result } = await ask({ id: 2, method: "tools/list" });
    expect(result.tools.length).toBeGreaterThan(5);
    expect(peer.headers.at(-1)).toMatchObject({ authorization: "Bearer secret", "x-team": "a:b" });
  });

  test("sluice bridge ends with its input, also while a stream of changes is open", async () => {
    const isOpen = (): boolean =>
      peer.received.some(({ method }) => method === "subscriptions/listen");
    await expect.poll(isOpen).toBe(true);
    child.stdin!.end();
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});

test("sluice bridge takes a command and ends with its input", async () => {
  const server = `require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, params } = JSON.parse(line);
    const result = { protocolVersion: params.protocolVersion, capabilities: {}, serverInfo: { name: "c", version: "1" } };
    console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });`;
  const args = [program(command), "bridge", "--", process.execPath, "-e", server];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "ignore"] });
  const params = { protocolVersion: "2025-11-25", capabilities: {} };
  child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params })}\n`);
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  expect(JSON.parse(line.toString())).toMatchObject({
    id: 1,
    result: { serverInfo: { name: "c" } },
  });
  child.stdin.end();
  expect(await once(child, "exit")).toEqual([0, null]);
});
