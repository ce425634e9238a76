// Servers of networks with authorities, certificates and names of their own.
import { execFileSync, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import { createServer as createPlainServer, request, type IncomingMessage } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { placeOf, ruledOptions, setServerRules } from "@sluice/core/internal/node";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { createAuthority, readPair, type CertificateFiles } from "./certificates.ts";
import { listenHere, runHere, serveHere } from "./run-here.ts";
import { freePort, sluice, type Run, type Served } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const hasIpv6 = Object.values(networkInterfaces()).some((each) =>
  each?.some(({ address }) => address === "::1"),
);
let root = "";
let ca = "";
let otherCa = "";
let files: CertificateFiles;
let me: CertificateFiles;
let served: Served | undefined;
/** What the proxy that asks for certificates saw of each connection. */
const seen: string[] = [];
let gate: Server | undefined;
let behind: Served | undefined;
let isReady = false;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-networks-"));
  await mkdir(join(root, "files"));
  await writeFile(join(root, "files/a.txt"), "content");
  const authority = createAuthority(root);
  const other = createAuthority(root, "other");
  if (!authority || !other) return console.info("no openssl here: no test of this file runs");
  [ca, otherCa] = [authority.ca, other.ca];
  files = authority.sign("files.test", "DNS:localhost,DNS:files.test,IP:127.0.0.1,IP:::1");
  me = authority.sign("me", "email:me@files.test");
  const tls = ["--tls-cert", files.cert, "--tls-key", files.key];
  served = await serveHere(join(root, "files"), ["--uploads", join(root, "inbox"), "--ws", ...tls]);
  await startGate();
  isReady = true;
});
afterAll(async () => {
  await served?.end();
  gate?.close().closeAllConnections();
  await behind?.end();
  await rm(root, { recursive: true });
});

/** Starts a server that takes only connections with a certificate of the authority, and passes their requests on. */
async function startGate(): Promise<void> {
  const port = await freePort();
  const options = { ...(await readPair(files)), ca: await readFile(ca), requestCert: true };
  gate = createServer(options, (incoming: IncomingMessage, outgoing) => {
    const { method, url = "", headers } = incoming;
    seen.push(String((incoming.socket as TLSSocket).getPeerCertificate().subject?.CN));
    const next = request(`http://127.0.0.1:${port}${url}`, { method, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(outgoing);
    });
    incoming.pipe(next);
  });
  gate.on("tlsClientError", () => {}).listen(0, "127.0.0.1");
  await once(gate, "listening");
  const address = ["--port", String(port), "--public-url", gateUrl()];
  behind = await serveHere(join(root, "files"), address);
}

const gateUrl = (): string => urlOf(gate!);

function urlOf(server: Server): string {
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

const run = (...args: readonly string[]): Promise<Run> =>
  runHere(args, { cwd: root, env: { XDG_STATE_HOME: join(root, "state") } });

/** The same in a process of its own: without connections of earlier runs. */
const runApart = (...args: readonly string[]): Promise<Run> => sluice(args, { cwd: root });

test("every command works over TLS with --cacert, downloads, uploads and WebSocket included", async () => {
  if (!isReady) return;
  const { url } = served!;
  expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+\/mcp$/);
  const trust = ["--cacert", ca];
  expect(await run("ls", url, ...trust)).toMatchObject({ stdout: "files://local/a.txt\n" });
  expect(await run("ls", url.replace(/^https/, "wss"), ...trust)).toMatchObject({ status: 0 });
  expect(await run("cat", url, "a.txt", ...trust)).toMatchObject({ status: 0, stdout: "content" });
  expect(await run("get", url, "a.txt", "-o", "copy", ...trust)).toMatchObject({ status: 0 });
  expect(await run("put", url, "copy", ...trust)).toMatchObject({ status: 0 });
  expect(await readFile(join(root, "inbox/copy"), "utf8")).toBe("content");
  const doctor = await run("doctor", url, "--watch", "1", ...trust);
  expect([doctor.status, doctor.stdout]).toEqual([0, expect.stringContaining("no problems found")]);
});

test("a bridge follows --cacert", async () => {
  if (!isReady) return;
  const bridge = await listenHere(["bridge", served!.url, "--http", "--port", "0", "--cacert", ca]);
  try {
    expect(await run("ls", bridge.url)).toMatchObject({ stdout: "files://local/a.txt\n" });
  } finally {
    await bridge.end();
  }
});

test.each(["ls", "wss", "doctor"])(
  "%s does not trust a server whose authority is not in --cacert, and says what to do",
  async (command) => {
    if (!isReady) return;
    const url = command === "wss" ? served!.url.replace(/^https/, "wss") : served!.url;
    const name = command === "wss" ? "ls" : command;
    const { status, stdout, stderr } = await runApart(name, url, "--cacert", otherCa);
    expect(status).not.toBe(0);
    expect(stdout + stderr).toMatch(/--cacert/);
    expect(stderr).toMatch(/^sluice: [^\n]+\n$/);
  },
);

test("the rules of one run do not hold for the next", async () => {
  if (!isReady) return;
  expect((await run("ls", served!.url, "--cacert", ca)).status).toBe(0);
  expect((await run("ls", served!.url)).status).toBe(exitCodes.refused.status);
});

/** A server with a name that no DNS has. */
async function serveNamed(): Promise<URL> {
  const port = await freePort();
  const url = new URL(`https://files.test:${port}/mcp`);
  const tls = ["--tls-cert", files.cert, "--tls-key", files.key, "--allow-anonymous"];
  const address = ["--port", String(port), "--public-url", url.href];
  const named = await serveHere(join(root, "files"), [...address, ...tls]);
  onTestFinished(async () => void (await named.end()));
  return url;
}

test("--resolve leads a name to an address, for messages and bytes, and the certificate is checked for the name", async () => {
  if (!isReady) return;
  const { href, port } = await serveNamed();
  const to = (name: string): string[] => ["--cacert", ca, "--resolve", `${name}:${port}:127.0.0.1`];
  expect((await runApart("ls", href, "--cacert", ca)).status).toBe(exitCodes.network.status);
  expect(await run("cat", href, "a.txt", ...to("files.test"))).toMatchObject({ stdout: "content" });
  const doctor = await run("doctor", href, "--watch", "1", ...to("FILES.test"));
  expect([doctor.status, doctor.stdout]).toEqual([0, expect.stringContaining("no problems found")]);
  const wrong = await run("ls", `https://elsewhere.test:${port}/mcp`, ...to("elsewhere.test"));
  expect(wrong.stderr).toMatch(/certificate of \S+ is not trusted: .*ALTNAME_INVALID/);
});

test("through a proxy --cacert holds for the server behind it", async () => {
  if (!isReady) return;
  const { href, port } = await serveNamed();
  const ends: string[] = [];
  const proxy = createPlainServer().on("connect", (asked: IncomingMessage, socket: Duplex) => {
    ends.push(asked.url ?? "");
    const end = connect(Number(port), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.pipe(end).pipe(socket);
    });
    for (const each of [end, socket]) each.on("error", () => {});
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  onTestFinished(() => proxy.close().closeAllConnections());
  const env = { HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
  const trusting = await sluice(["cat", href, "a.txt", "--cacert", ca], { cwd: root, env });
  expect(trusting).toMatchObject({ status: 0, stdout: "content" });
  expect(new Set(ends)).toEqual(new Set([`files.test:${port}`]));
  const wary = await sluice(["cat", href, "a.txt", "--cacert", otherCa], { cwd: root, env });
  expect([wary.status, wary.stdout]).toEqual([exitCodes.refused.status, ""]);
});

test("a server that asks for a certificate gets that of --cert, for messages and bytes", async () => {
  if (!isReady) return;
  seen.length = 0;
  const own = ["--cacert", ca, "--cert", me.cert, "--key", me.key];
  expect(await run("cat", gateUrl(), "a.txt", ...own)).toMatchObject({ stdout: "content" });
  expect(new Set(seen)).toEqual(new Set(["me"]));
});

test("a server that disconnects clients without a certificate, or asks for one, leads to --cert", async () => {
  if (!isReady) return;
  const cut = await runApart("ls", gateUrl(), "--cacert", ca);
  expect(cut.stderr).toMatch(
    /^sluice: .*cannot be reached .*requires a certificate.*\(--cert\); .*\n$/,
  );
  const nginx = createServer(await readPair(files), (_, response) => {
    response.writeHead(400, { "content-type": "text/html" });
    response.end("<h1>400 Bad Request</h1><center>No required SSL certificate was sent</center>");
  });
  nginx.listen(0, "127.0.0.1");
  await once(nginx, "listening");
  onTestFinished(() => nginx.close().closeAllConnections());
  const told = await run("ls", urlOf(nginx), "--cacert", ca);
  expect(told.stderr).toMatch(/^sluice: .*requires a certificate.*; pass --cert .*and --key.*\n$/);
});

test("a server whose TLS ends without a certificate of the client leads to --cert", async () => {
  if (!isReady) return;
  const port = await freePort();
  const pair = ["-cert", files.cert, "-key", files.key, "-CAfile", ca];
  const options = [
    "-accept",
    `127.0.0.1:${port}`,
    "-Verify",
    "1",
    "-verify_return_error",
    "-quiet",
  ];
  const server = spawn("openssl", ["s_server", ...options, ...pair], { stdio: "ignore" });
  onTestFinished(() => void server.kill());
  await expect.poll(() => isOpen(port)).toBe(true);
  const { stderr } = await run("ls", `https://127.0.0.1:${port}/mcp`, "--cacert", ca);
  expect(stderr).toMatch(/^sluice: .*require.* a certificate.*--cert.*\n$/);
});

test("a certificate is shown to no other server", () => {
  setServerRules({ identity: { place: placeOf("files.test", 443), cert: "cert", key: "key" } });
  try {
    expect(ruledOptions("FILES.test", 443)).toEqual({ cert: "cert", key: "key" });
    for (const [host, port] of [
      ["files.test", 8443],
      ["cdn.files.test", 443],
      ["::1", 443],
    ] as const)
      expect(ruledOptions(host, port)).toEqual({});
  } finally {
    setServerRules(undefined);
  }
});

test("a certificate and a key in one file are enough", async () => {
  if (!isReady) return;
  const both = join(root, "both.pem");
  await writeFile(both, (await readFile(me.cert, "utf8")) + (await readFile(me.key, "utf8")));
  expect((await run("ls", gateUrl(), "--cacert", ca, "--cert", both)).status).toBe(0);
});

test.runIf(hasIpv6)("an IPv6 address is served and reached, with and without TLS", async () => {
  if (!isReady) return;
  const tls = ["--tls-cert", files.cert, "--tls-key", files.key];
  for (const options of [[], tls]) {
    const server = await serveHere(join(root, "files"), ["--host", "::1", ...options]);
    try {
      expect(server.url).toMatch(/^https?:\/\/\[::1\]:\d+\/mcp$/);
      const trust = options.length > 0 ? ["--cacert", ca] : [];
      expect(await run("cat", server.url, "a.txt", ...trust)).toMatchObject({ stdout: "content" });
    } finally {
      await server.end();
    }
  }
});

test("files and addresses that these options cannot use are one line that says what to change", async () => {
  if (!isReady) return;
  const key = join(root, "locked.key");
  const lock = ["-aes256", "-passout", "pass:hunter2", "-in", me.key, "-out", key];
  execFileSync("openssl", ["pkey", ...lock], { stdio: "ignore" });
  const secure = "https://127.0.0.1:1/mcp";
  const rows: readonly (readonly [readonly string[], RegExp])[] = [
    [["ls", secure, "--cacert", "missing"], /--cacert: missing cannot be read \(ENOENT\)/],
    [["ls", secure, "--cacert", me.key], /has no certificate in PEM/],
    [["ls", secure, "--cert", me.key], /has no certificate in PEM/],
    [["ls", secure, "--cert", me.cert], /has no private key in PEM/],
    [["ls", secure, "--key", me.key], /--key has no effect without --cert/],
    [["ls", secure, "--cert", me.cert, "--key", files.key], /is not that of the certificate/],
    [["ls", secure, "--cert", me.cert, "--key", key], /needs a passphrase; .*openssl pkey/],
    [["ls", "http://127.0.0.1:1/mcp", "--cert", me.cert], /--cert is for https and wss/],
    [["ls", secure, "--resolve", "a:443"], /HOST:PORT:ADDRESS, such as/],
    [["ls", secure, "--resolve", "a:443:b"], /HOST:PORT:ADDRESS, such as/],
    [["serve", "files", "--tls-cert", me.cert], /belong together; pass both/],
    [
      ["serve", "files", "--host", "0.0.0.0", "--tls-cert", "c", "--tls-key", "k", "--token", "t"],
      /every address of this machine.*--public-url/,
    ],
    [["serve", "files", "--stdio", "--tls-cert", "c", "--tls-key", "k"], /no effect with --stdio/],
  ];
  for (const [args, said] of rows) {
    const { status, stdout, stderr } = await run(...args);
    expect([status, stdout, stderr]).toEqual([
      exitCodes.usage.status,
      "",
      expect.stringMatching(said),
    ]);
    expect(stderr).toMatch(/^sluice: [^\n]+\n$/);
  }
});
