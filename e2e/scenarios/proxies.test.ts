// @module-tag slow
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { freePort, program, serve, sluice, type Served } from "../../packages/cli/test/sluice.ts";
import { createCertificate } from "../bed/certificate.ts";
import { listen } from "../bed/listen.ts";

const token = "hush-hush-token";
const address = "https://mcp.example/mcp";

let folder = "";
let uploads = "";
let served: Served;
let front: Server;
let frontPort = 0;

// a server that only a proxy reaches: no DNS knows its name
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sluice-proxies-"));
  uploads = join(folder, "uploads");
  mkdirSync(join(folder, "files"));
  writeFileSync(join(folder, "files", "a.bin"), Buffer.alloc(300_000, "a"));
  const { key, cert } = createCertificate({ name: "mcp.example" });
  writeFileSync(join(folder, "ca.pem"), cert);
  const port = await freePort();
  const args = ["--port", String(port), "--public-url", address, "--token", token];
  served = await serve(join(folder, "files"), [...args, "--ws", "--uploads", uploads]);
  front = createTlsServer({ key, cert }, (socket) =>
    joinSockets(socket, connect(port, "127.0.0.1")),
  );
  ({ port: frontPort } = await listen(front));
});
afterAll(async () => {
  front.close();
  await served.end();
  rmSync(folder, { recursive: true });
});

function joinSockets(near: Socket, far: Socket): void {
  for (const [from, to] of [
    [near, far],
    [far, near],
  ] as const) {
    from.on("error", () => to.destroy());
    from.on("close", () => to.destroy());
    from.pipe(to);
  }
}

/** A proxy that connects every name to the server, with what it could read and was asked. */
async function startProxy() {
  const asked: string[] = [];
  let carried = "";
  const proxy = createHttpServer();
  proxy.on("connect", (request, client: Socket) => {
    asked.push(request.url ?? "");
    carried += request.rawHeaders.join("\n");
    const far = connect(frontPort, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      client.on("data", (chunk) => (carried += chunk.toString("latin1")));
      joinSockets(client, far);
    });
  });
  const listening = await listen(proxy);
  onTestFinished(() => listening.close());
  return { origin: listening.origin, asked, carried: () => carried };
}

const envOf = (origin: string): Record<string, string> => ({
  HTTPS_PROXY: origin,
  NODE_EXTRA_CA_CERTS: join(folder, "ca.pem"),
  SLUICE_TOKEN: token,
  XDG_STATE_HOME: join(folder, "state"),
});

const commands: Readonly<Record<string, () => { args: string[]; check?: () => void }>> = {
  ls: () => ({ args: ["ls", address] }),
  "ls over WebSocket": () => ({ args: ["ls", address.replace("https", "wss")] }),
  get: () => {
    const out = join(folder, "got.bin");
    return {
      args: ["get", address, "files://local/a.bin", "-o", out],
      check: () => expect(readFileSync(out)).toHaveLength(300_000),
    };
  },
  put: () => {
    const sent = join(folder, "sent.txt");
    writeFileSync(sent, "sent through a proxy");
    return {
      args: ["put", address, sent],
      check: () => expect(readdirSync(uploads, { recursive: true }).length).toBeGreaterThan(0),
    };
  },
  doctor: () => ({ args: ["doctor", address, "--watch", "1"] }),
};

test.each(Object.keys(commands))(
  "%s reaches a server through the proxy of the environment, which cannot read the token",
  async (name) => {
    const proxy = await startProxy();
    const { args, check } = commands[name]!();
    const run = await sluice(args, { env: envOf(proxy.origin) });
    expect(run).toMatchObject({ status: 0 });
    check?.();
    expect(proxy.asked.length).toBeGreaterThan(0);
    expect(new Set(proxy.asked)).toEqual(new Set(["mcp.example:443"]));
    expect(proxy.carried()).not.toContain(token);
  },
);

/** Starts the bridge and asks it for a session. */
function startBridge(env: Record<string, string>) {
  const [command = "", ...first] = program;
  const args = [...first, "bridge", address, "--no-browser"];
  const child: ChildProcess = spawn(command, args, { env: { ...process.env, ...env } });
  onTestFinished(() => void child.kill("SIGKILL"));
  let answer = "";
  child.stdout!.on("data", (chunk) => (answer += String(chunk)));
  child.stderr!.resume();
  const params = {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "h", version: "1" },
  };
  const message = { jsonrpc: "2.0", id: 1, method: "initialize", params };
  child.stdin!.write(`${JSON.stringify(message)}\n`);
  return { child, answer: () => answer };
}

test("the bridge reaches a server through the proxy of the environment", async () => {
  const proxy = await startProxy();
  const { child, answer } = startBridge(envOf(proxy.origin));
  await expect.poll(answer, { timeout: 20_000 }).toContain('"serverInfo"');
  child.stdin!.end();
  await once(child, "exit");
  expect(proxy.asked.length).toBeGreaterThan(0);
  expect(proxy.carried()).not.toContain(token);
});

/** A proxy that is none, by what it does with a connection. */
const hostile: Readonly<Record<string, (socket: Socket) => void>> = {
  "drops CONNECT": (socket) => void socket.once("data", () => socket.destroy()),
  "drops connections": (socket) => void socket.destroy(),
  "never answers": (socket) => void socket.resume(),
  "drops TLS": (socket) =>
    void socket.once("data", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.once("data", () => socket.destroy());
    }),
  "is silent behind its answer": (socket) =>
    void socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\n\r\n")),
  "sends headers without an end": (socket) => {
    const timer = setInterval(() => socket.write("X-A: b\r\n"), 20);
    socket.once("close", () => clearInterval(timer));
    socket.resume().write("HTTP/1.1 200 OK\r\n");
  },
};

async function startHostile(act: (socket: Socket) => void) {
  let count = 0;
  const sockets = new Set<Socket>();
  const proxy = createServer((socket) => {
    count++;
    sockets.add(socket);
    socket.on("error", () => {});
    act(socket);
  });
  const { port } = await listen(proxy);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });
  return { env: envOf(`http://127.0.0.1:${port}`), count: () => count };
}

/** What a process ended with; a signal where it had to be killed, for it did not end within so many milliseconds. */
async function endOf(child: ChildProcess, mostMs: number): Promise<string> {
  const kill = setTimeout(() => child.kill("SIGKILL"), mostMs);
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
  clearTimeout(kill);
  return String(signal ?? code);
}

const ends: Readonly<
  Record<string, readonly [end: (child: ChildProcess) => void, status: string]>
> = {
  "the end of its input": [(child) => void child.stdin!.end(), "0"],
  SIGTERM: [(child) => void child.kill("SIGTERM"), "143"],
  SIGINT: [(child) => void child.kill("SIGINT"), "130"],
};

test.each(
  Object.keys(hostile).flatMap((proxy) => Object.keys(ends).map((end) => [proxy, end] as const)),
)("a proxy that %s: %s ends the bridge within its grace", async (act, how) => {
  const { env, count } = await startHostile(hostile[act]!);
  const [end, status] = ends[how]!;
  const { child } = startBridge(env);
  await expect.poll(count, { timeout: 20_000 }).toBeGreaterThan(0);
  // in the middle of its attempts
  await new Promise((resolve) => setTimeout(resolve, 500));
  const begun = performance.now();
  end(child);
  expect(await endOf(child, 10_000)).toBe(status);
  console.log(
    `${act}, ${how}: ended after ${Math.round(performance.now() - begun)} ms, ${count()} connections`,
  );
  expect(count()).toBeLessThanOrEqual(20);
});

test.each(Object.keys(hostile))(
  "a proxy that %s: every command gives up after a few connections",
  async (act) => {
    const file = join(folder, "files", "a.bin");
    const runs = [
      ["ls", address],
      ["get", address, "files://local/a.bin", "-o", join(folder, "none.bin")],
      ["put", address, file],
      ["doctor", address],
    ].map(async (args) => {
      const { env, count } = await startHostile(hostile[act]!);
      const { status, stderr } = await sluice(args, { env });
      return {
        status,
        isAdvised: /proxy|cannot|not answer|problems? found/.test(stderr),
        few: count() <= 20,
      };
    });
    for (const run of await Promise.all(runs)) {
      expect(run.status).toBeGreaterThan(0);
      expect(run).toMatchObject({ isAdvised: true, few: true });
    }
  },
);

test("the bridge behind a proxy that drops CONNECT answers its host after a few connections", async () => {
  const { env, count } = await startHostile(hostile["drops CONNECT"]!);
  const { child, answer } = startBridge(env);
  await expect.poll(answer, { timeout: 100_000 }).toContain("check HTTPS_PROXY and NO_PROXY");
  console.log(`until the bridge gave up: ${count()} connections`);
  expect(count()).toBeLessThanOrEqual(20);
  child.kill("SIGTERM");
  expect(await endOf(child, 10_000)).toBe("143");
}, 120_000);
