import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { McpServer } from "@modelcontextprotocol/server";
import { startGraphEmulator } from "@sluice/graph-emulator";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { serve as serveSluice } from "@sluice/transport-http/node";
import { listenWebSocket } from "@sluice/transport-ws";
import { expect, onTestFinished, test } from "vitest";
import { startSocketServer } from "../../apps/demo-server/src/lib/socket-server.ts";
import { openCallbackServer } from "../../packages/bridge/src/upstream/oauth/callback-server.ts";
import { serve, startListening } from "../../packages/cli/test/sluice.ts";
import { listen } from "../bed/listen.ts";

/** Targets that parsers of URLs throw for, or read in two ways. */
const targets = [
  "//",
  "//[x",
  "//@:",
  "//%",
  "///",
  "/\\",
  "\\",
  "/%",
  "/%zz",
  "/%E0%A4%A",
  "/%00",
  "/\u0080\u00ff",
  "/..//..",
  "/[",
  "*",
  "?",
  "#",
  "x:443",
  "http://",
  "http://[",
  "http://%",
  "http://x:99999/",
  "https://u:p@[::1",
  "/callback?%",
  "/callback?state=%E0%A4%A&state",
  "//[x/mcp",
  "/mcp?%",
  "/mcp/streams/%zz",
  "/mcp/uploads/%zz",
  "/v1.0/drives/%zz/root",
  `/${"a".repeat(8_000)}`,
];

/** What a request says besides: each goes to other code. */
const forms: Readonly<Record<string, readonly string[]>> = {
  plain: ["Connection: close"],
  "of a page elsewhere": ["Connection: close", "Origin: https://evil.example"],
  "that asks first": ["Connection: close", "Expect: 100-continue", "Content-Length: 1"],
  "that upgrades": [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
  ],
  "that upgrades to something else": ["Connection: Upgrade", "Upgrade: h2c"],
};

/** A listener that runs, by its port. */
type Start = () => Promise<number>;

const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), "sluice-listeners-"));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
};
const portIn = (url: string): number => Number(new URL(url).port);

const starts: Readonly<Record<string, Start>> = {
  "sluice serve": async () => {
    const served = await serve(folder(), ["--ws", "--uploads", folder()]);
    onTestFinished(async () => void (await served.end()));
    return portIn(served.url);
  },
  "sluice bridge --http": async () => {
    const args = ["bridge", "--http", "--port", "0", "http://127.0.0.1:9/mcp"];
    const served = await startListening(args);
    onTestFinished(async () => void (await served.end()));
    return portIn(served.url);
  },
  "the sign-in of a bridge": async () => {
    const callback = await openCallbackServer("state");
    onTestFinished(() => callback.close());
    return callback.port;
  },
  "a server of serve": async () => {
    const sluice = createSluice({ storage: createMemoryBackend() });
    const create = () => sluice.attach(new McpServer({ name: "served", version: "1.0.0" }));
    const serving = await serveSluice(sluice, create, { port: 0 });
    onTestFinished(async () => void (await serving.close({ deadlineMs: 0 })));
    return serving.port;
  },
  "a WebSocket server": async () => {
    const factory = () => new McpServer({ name: "sockets", version: "1.0.0" });
    const listening = await listenWebSocket(factory, { anonymous: true });
    onTestFinished(() => listening.close());
    return listening.port;
  },
  "the WebSocket server of the demo": async () =>
    portIn(await startSocketServer(folder(), { sink: () => {} })),
  "the emulator of Graph": async () => {
    const emulator = await startGraphEmulator();
    onTestFinished(() => emulator[Symbol.asyncDispose]());
    return portIn(emulator.origins.graph);
  },
};

/** The files in which listeners stand, and what starts them. */
const covered: Readonly<Record<string, keyof typeof starts | { readonly because: string }>> = {
  "packages/cli/src/serve/listen.ts": "sluice serve",
  "packages/cli/src/commands/serve-command.ts": "sluice serve",
  "packages/transport-http/src/node/harden-server.ts": "sluice serve",
  "packages/transport-http/src/node/drain-server.ts": "sluice serve",
  "packages/transport-http/src/node/connection.ts": "sluice serve",
  "packages/transport-http/src/node/serve.ts": "a server of serve",
  "packages/cli/src/bridge/bridge-http.ts": "sluice bridge --http",
  "packages/bridge/src/upstream/oauth/callback-server.ts": "the sign-in of a bridge",
  "packages/transport-ws/src/server/listen-websocket.ts": "a WebSocket server",
  "e2e/graph-emulator/src/hosts/hosts.ts": "the emulator of Graph",
  "apps/demo-server/src/lib/socket-server.ts": "the WebSocket server of the demo",
  "apps/demo-server/src/server-process.ts": { because: "an Express app around our handler" },
  "apps/cluster/src/lib/serve.ts": { because: "an Express app around our handler" },
};

test("every listener of the packages and programs is started here", () => {
  const root = new URL("../../", import.meta.url);
  const sources = ["packages", "apps"].flatMap((parent) =>
    readdirSync(new URL(parent, root))
      // it measures other programs, on this machine only
      .filter((name) => name !== "bench")
      .map((name) => `${parent}/${name}/src/`),
  );
  sources.push("e2e/graph-emulator/src/");
  const listening = sources.flatMap((source) =>
    readdirSync(new URL(source, root), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => `${source}${file}`)
      .filter((file) => {
        const code = readFileSync(new URL(file, root), "utf8").replaceAll(
          /^\s*(?:\*|\/\/).*$/gm,
          "",
        );
        const isServer = /\bcreateServer\(/.test(code) && /from "node:https?"/.test(code);
        return (
          isServer ||
          /\w+\.(?:on|prependListener)\("(?:request|upgrade|checkContinue)"/.test(code) ||
          /\bbeginToServe\(/.test(code)
        );
      }),
  );
  const isClient = (file: string): boolean => file.includes("/client/");
  expect(listening.filter((file) => !isClient(file)).toSorted()).toEqual(
    Object.keys(covered).toSorted(),
  );
});

/** Sends one request as it is; gives the beginning of the answer, empty where the connection was closed. */
function send(port: number, target: string, lines: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(port, "127.0.0.1");
    const late = setTimeout(() => {
      socket.destroy();
      reject(new Error(`no answer to ${JSON.stringify(target.slice(0, 60))}`));
    }, 5_000);
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
      // 100 asks for the body
      if (/^HTTP\/1.1 (?!100)/.test(answer)) socket.destroy();
      else socket.write("x");
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(late);
      resolve(answer);
    });
    const head = [`GET ${target} HTTP/1.1`, `Host: 127.0.0.1:${port}`, ...lines];
    socket.write(`${head.join("\r\n")}\r\n\r\n`, "latin1");
  });
}

/** Sends every target in every form; gives what was answered in the end with 500 or not at all. */
async function attack(port: number): Promise<string[]> {
  const failed: string[] = [];
  for (const [form, lines] of Object.entries(forms)) {
    const answers = targets.map((target) => send(port, target, lines).catch(String));
    for (const [at, answer] of (await Promise.all(answers)).entries()) {
      const isFault = answer.startsWith("Error") || /^HTTP\/1.1 500/.test(answer);
      if (isFault) failed.push(`${form}: ${targets[at]?.slice(0, 40)}: ${answer.slice(0, 40)}`);
    }
  }
  const last = await send(port, "/", ["Connection: close"]).catch(String);
  if (!/^HTTP\/1.1 [2-5]/.test(last)) failed.push(`it is gone: ${last}`);
  return failed;
}

test.each(Object.keys(starts))("no target of a request ends %s or makes it a 500", async (name) => {
  expect(await attack(await starts[name]!())).toEqual([]);
});

test("negative control: a listener that parses a raw target is found", async () => {
  const faulty = createServer((request, response) => {
    try {
      response.end(new URL(request.url ?? "/", "http://127.0.0.1").pathname);
    } catch {
      // what an exception does to a process
      faulty.close();
      faulty.closeAllConnections();
    }
  });
  const { port } = await listen(faulty);
  expect(await attack(port)).toContain("it is gone: ");
});

test("negative control: a listener that never answers is found", { tags: "slow" }, async () => {
  const sockets = new Set<{ destroy(): unknown }>();
  const silent = createTcpServer((socket) => sockets.add(socket));
  const { port } = await listen(silent);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  await expect(send(port, "/", forms["plain"]!)).rejects.toThrow("no answer");
});
