import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { connect as connectSocket, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { streamResource } from "@sluice/client/node";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createSidecar } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect } from "./connect.ts";
import { initialize, rawSocket } from "./raw-socket.ts";
import { bearer, bytes, principal, uri } from "./serve.ts";

const missing = spawnSync("nginx", ["-v"]).error !== undefined;
if (missing)
  console.log(
    "no nginx: the configuration of docs/websocket.md is not tried (apt-get install nginx)",
  );

async function listening(
  server = createServer(),
): Promise<{ server: typeof server; port: number }> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { server, port: (server.address() as AddressInfo).port };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** nginx with the configuration of the documentation, at other ports and without root. */
async function startNginx(socketPort: number, bytesPort: number): Promise<number> {
  const page = fileURLToPath(new URL("../../../docs/websocket.md", import.meta.url));
  const documented = /^```nginx\n([\s\S]*?)^```$/m.exec(await readFile(page, "utf8"))![1]!;
  const port = await freePort();
  const site = documented
    .replace("listen 8000;", `listen 127.0.0.1:${port};`)
    .replace("127.0.0.1:8001", `127.0.0.1:${socketPort}`)
    .replace("127.0.0.1:8002", `127.0.0.1:${bytesPort}`);
  const folder = await mkdtemp(join(tmpdir(), "sluice-nginx-"));
  await mkdir(join(folder, "tmp"));
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${folder}/tmp/${name};`)
    .join(" ");
  await writeFile(
    join(folder, "nginx.conf"),
    `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr error;
     events { worker_connections 256; }
     http { access_log off; ${temporary} ${site} }`,
  );
  const nginx = spawn("nginx", ["-p", folder, "-c", join(folder, "nginx.conf"), "-e", "stderr"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const exited = once(nginx, "exit");
  onTestFinished(async () => {
    nginx.kill("SIGKILL");
    await exited;
    await rm(folder, { recursive: true });
  });
  await expect
    .poll(
      async () => {
        const probe = connectSocket(port, "127.0.0.1");
        const outcome = await Promise.race([
          once(probe, "connect").then(() => "up"),
          once(probe, "close").then(() => "down"),
        ]).catch(() => "down");
        probe.destroy();
        return outcome;
      },
      { timeout: 10_000 },
    )
    .toBe("up");
  return port;
}

describe.skipIf(missing)("behind nginx, as documented", () => {
  test("the socket and the bytes, in processes that share keys alone, have one public address", async () => {
    const socket = await listening();
    const downloads = await listening();
    const port = await startNginx(socket.port, downloads.port);
    const options: SluiceOptions = {
      storage: createMemoryBackend({ "a.bin": bytes }),
      baseUri: "files://demo/",
      endpoint: `http://127.0.0.1:${port}/mcp`,
      keys: [generateKey()],
      principal,
    };
    const sluice = createSluice(options);
    const url = `ws://127.0.0.1:${port}/mcp`;
    const handler = createWebSocketHandler(
      () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
      { url, bearer },
    );
    socket.server.on("upgrade", (request, raw, head) => void handler.upgrade(request, raw, head));
    const serveBytes = toNodeHandler(createSidecar(createSluice(options)));
    downloads.server.on("request", (request, response) => {
      const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
      const auth = { token, clientId: "app", scopes: [], extra: { sub: token } };
      serveBytes(Object.assign(request, { auth }), response);
    });

    const { client } = await connect("SDK v2, modern", url, { token: "ann" });
    const stream = await streamResource(client, uri);
    expect(Buffer.from(await new Response(stream.body).arrayBuffer()).equals(bytes)).toBe(true);

    // the close code of a drain comes through
    const headers = { authorization: "Bearer ann" };
    const raw = await rawSocket(port, { headers });
    raw.text(initialize);
    await raw.json();
    const closed = handler.close({ restart: true });
    expect(await raw.closed()).toBe(1012);
    raw.socket.destroy();
    await client.close();
    await closed;

    // and so does a refusal
    expect((await rawSocket(port, { headers })).status).toBe(503);
    expect((await rawSocket(port, { headers: { ...headers, host: "evil.example" } })).status).toBe(
      421,
    );
  });
});
