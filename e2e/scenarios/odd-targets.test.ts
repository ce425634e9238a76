import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { inspect } from "node:util";
import { createMcpExpressApp } from "@modelcontextprotocol/express";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";
import express, { type Express } from "express";
import { createServer, type RequestListener } from "node:http";
import { afterEach, expect, test, vi } from "vitest";
import { listen } from "../bed/listen.ts";
import { call } from "../bed/raw.ts";

afterEach(() => vi.restoreAllMocks());

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.log("odd targets: each with all headers is for SLUICE_DEEP=1");

type Mount = (handle: RequestListener) => RequestListener;
const inApp =
  (app: Express): Mount =>
  (handle) => {
    app.all(/^\/mcp(?:\/|$)/, handle);
    return app;
  };

/** How authors put the handler into a server. */
const mounts: Readonly<Record<string, () => Mount>> = {
  "node:http": () => (handle) => handle,
  "an Express app": () => inApp(express()),
  "an Express app that is mounted": () => (handle) => express().use("/mcp", handle),
  "the SDK's Express app": () => inApp(createMcpExpressApp()),
};

/** A server with downloads and WebSocket, what it reported, and a download URL of it. */
async function start(mount: Mount) {
  const reported: unknown[] = [];
  const onError = (error: unknown): void => void reported.push(error);
  const server = createServer();
  const listening = await listen(server);
  const endpoint = `${listening.origin}/mcp`;
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.bin": "x" }),
    baseUri: "files://site/",
    endpoint,
    keys: [generateKey()],
    delivery: "downloadUrl",
    audit: (record) => void reported.push(record),
    onError,
  });
  const factory = () => sluice.attach(new McpServer({ name: "site", version: "1.0.0" }));
  const mcp = createMcpHandler(factory);
  server.on("request", mount(toNodeHandler(withSluice(mcp, sluice), { onError })));
  const sockets = createWebSocketHandler(factory, {
    url: endpoint.replace("http", "ws"),
    anonymous: true,
    onError,
  });
  server.on("upgrade", (request, socket, head) => {
    if (!sockets.upgrade(request, socket, head)) socket.destroy();
  });
  const { message } = await call(
    endpoint,
    "resources/stream",
    { uri: "files://site/a.bin" },
    { streaming: {} },
  );
  const url = new URL(message?.result?.["downloadUrl"] as string);
  return {
    url,
    token: url.pathname.split("/").at(-1)!,
    port: listening.port,
    reported,
    async [Symbol.asyncDispose]() {
      await sockets.close({ deadlineMs: 0 });
      await mcp.close();
      await listening.close();
    },
  };
}

/** Sends a request as it is, and gives the answer. */
async function send(port: number, request: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  const answer = text(socket);
  await once(socket, "connect");
  socket.write(request);
  return answer;
}

/** The first of what was said that has the token in it, stacks and properties of errors included. */
function tellsOf(said: readonly unknown[], token: string): string | undefined {
  const all = said.map((one) =>
    inspect(one, { depth: 10, maxArrayLength: null, maxStringLength: null }),
  );
  return all.find((one) => one.includes(token));
}

test("negative control: an error that holds the URL it failed on is detected", () => {
  const error = ((): unknown => {
    try {
      return new URL("http://[/mcp/streams/secret");
    } catch (cause) {
      return new Error("failed", { cause });
    }
  })();
  expect(tellsOf([error], "secret")).toContain("secret");
});

test.each(Object.keys(mounts))(
  "%s gives no 500 to any form of a request, and nothing prints the token of its URL",
  async (name) => {
    const printed: unknown[] = [];
    for (const method of ["log", "info", "warn", "error", "debug"] as const)
      vi.spyOn(console, method).mockImplementation((...said) => void printed.push(...said));
    for (const stream of [process.stdout, process.stderr])
      vi.spyOn(stream, "write").mockImplementation((said) => printed.push(said) > 0);
    await using site = await start(mounts[name]!());
    const { url, token, port, reported } = site;
    const { pathname } = url;
    const targets = [
      pathname,
      url.href,
      url.href.replace("http", "HTTPS"),
      `http://[${pathname}`,
      `http://a b${pathname}`.replace(" ", "%zz"),
      "*",
      `*${pathname}`,
      `/${pathname}`,
      `/.${pathname}`,
      `${pathname}/../${token}`,
      `${pathname}%00`,
      `${pathname}%zz`,
      `${pathname}%ff`,
      `${pathname}#${token}`,
      `/mcp/resume/${token}`,
      `/mcp?${token}=%zz`,
    ];
    const methods = ["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PROPFIND"];
    const fields = [
      "",
      "Connection: Upgrade\r\nUpgrade: h2c\r\n",
      "Connection: Upgrade\r\nUpgrade: websocket\r\n",
      `Referer: ${url.href}\r\nX-Forwarded-Host: [\r\n`,
    ];
    const answers: (readonly [request: string, answer: string])[] = [];
    const hosts = [url.host, "[", "a b"];
    const tails = fields.flatMap((field, n) =>
      (n === 0 || isDeep ? hosts : [url.host]).map(
        (host) => `Host: ${host}\r\nConnection: close\r\n${field}\r\n`,
      ),
    );
    let turn = Object.keys(mounts).indexOf(name);
    for (const target of targets)
      for (const method of methods) {
        // each pair with one tail after the other, and the URL itself with all of them
        const whole = isDeep || target === pathname;
        const sent = whole ? tails : [tails[turn++ % tails.length]!];
        for (const tail of sent) {
          const request = `${method} ${target} HTTP/1.1\r\n${tail}`;
          answers.push([request, await send(port, request)]);
        }
      }
    vi.restoreAllMocks();
    const isServed = (answer: string): boolean => answer.startsWith("HTTP/1.1 200 ");
    expect(answers.filter(([, answer]) => isServed(answer)).length).toBeGreaterThan(0);
    // a WebSocket at another path ends with its connection, as the listener above says
    const odd = answers.filter(
      ([request, answer]) =>
        !/^HTTP\/1\.1 [234]/.test(answer) && !(answer === "" && request.includes("websocket")),
    );
    expect(odd).toEqual([]);
    // Express repeats the path of what it has no route for, to its sender alone
    const ours = answers
      .map(([, answer]) => answer)
      .filter((answer) => !answer.includes("<pre>Cannot "));
    for (const said of [ours, printed, reported]) expect(tellsOf(said, token)).toBeUndefined();
  },
  60_000,
);
