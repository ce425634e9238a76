// Servers that do not speak TLS as an address says, or speak it where it says that they do not.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createServer as createPlainServer, type Server } from "node:http";
import { createServer } from "node:https";
import {
  createServer as createRawServer,
  type AddressInfo,
  type Server as RawServer,
} from "node:net";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere } from "./run-here.ts";

vi.setConfig({ testTimeout: 60_000 });

const addresses = new Map<string, string>();
const servers: (Server | RawServer)[] = [];
let folder = "";
let isReady = false;

async function start(name: string, server: Server | RawServer): Promise<void> {
  servers.push(server);
  server.on("tlsClientError", () => {}).listen(0, "localhost");
  await once(server, "listening");
  addresses.set(name, `localhost:${(server.address() as AddressInfo).port}/mcp`);
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-tls-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const made = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert];
  try {
    const args = ["req", "-x509", "-subj", "/CN=elsewhere.example", ...made];
    execFileSync("openssl", args, { stdio: "ignore" });
  } catch {
    console.log("faults of TLS skipped: there is no openssl to make a certificate with");
    return;
  }
  const pair = { key: await readFile(key), cert: await readFile(cert) };
  const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" } as const;
  await start("self-signed", createServer(pair));
  await start("old", createServer({ ...pair, ...old }));
  await start("bare", createServer({}));
  await start("plain", createPlainServer());
  const ssh = createRawServer((socket) => {
    socket.on("error", () => {}).once("data", () => socket.end("SSH-2.0-OpenSSH_9.2\r\n"));
  });
  await start("other", ssh);
  isReady = true;
});
afterAll(async () => {
  for (const server of servers) server.close();
  await rm(folder, { recursive: true });
});

const refused = exitCodes.refused.status;
const away = exitCodes.network.status;

test.each([
  ["https", "self-signed", refused, /certificate of \S+ is not trusted: .*--cacert FILE/],
  ["wss", "self-signed", refused, /certificate of \S+ is not trusted: .*--cacert FILE/],
  ["https", "old", refused, /does not speak TLS .*http: address\?.* TLS 1\.2 or 1\.3/],
  ["wss", "old", refused, /does not speak TLS .*http: address\?.* TLS 1\.2 or 1\.3/],
  ["https", "bare", refused, /does not speak TLS .*certificate/],
  ["https", "plain", refused, /does not speak TLS .*http: address\?/],
  ["wss", "plain", refused, /does not speak TLS .*http: address\?/],
  ["https", "other", refused, /does not speak TLS .*http: address\?/],
  ["http", "self-signed", away, /disconnects .*is it an https: address\?/],
  ["ws", "self-signed", away, /could not be reached: is it a wss: address\?/],
  ["http", "other", away, /disconnects .*is it an https: address\?/],
] as const)(
  "%s: at a server that is %s names what is wrong with TLS",
  async (scheme, name, code, said) => {
    if (!isReady) return;
    const { status, stderr } = await runHere(["ls", `${scheme}://${addresses.get(name)}`]);
    expect(stderr).toMatch(said);
    expect(stderr).not.toContain("does not speak MCP");
    expect(status).toBe(code);
  },
);
