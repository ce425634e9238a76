import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { openTunnel, proxyFor } from "@sluice/core/internal/node";
import { expect, onTestFinished, test } from "vitest";

const proxy = "http://proxy.example:3128";
const other = "http://other.example:8080";

test.each<[string, NodeJS.ProcessEnv, string | undefined]>([
  ["https://mcp.example/", {}, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy }, proxy],
  ["https://mcp.example/", { https_proxy: proxy, HTTPS_PROXY: other }, proxy],
  ["https://mcp.example/", { https_proxy: "", HTTPS_PROXY: other }, undefined],
  ["https://mcp.example/", { HTTP_PROXY: proxy }, proxy],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, HTTP_PROXY: other }, proxy],
  ["https://mcp.example/", { HTTPS_PROXY: "proxy.example:3128" }, proxy],
  ["wss://mcp.example/", { HTTPS_PROXY: proxy }, proxy],
  ["http://mcp.example/", { HTTPS_PROXY: proxy }, undefined],
  ["http://mcp.example/", { http_proxy: proxy, HTTP_PROXY: other }, proxy],
  ["ws://mcp.example/", { HTTP_PROXY: proxy }, proxy],
  // this machine
  ["https://localhost/", { HTTPS_PROXY: proxy }, undefined],
  ["http://127.0.0.1:9/", { HTTP_PROXY: proxy }, undefined],
  ["http://127.9.9.9/", { HTTP_PROXY: proxy }, undefined],
  ["https://[::1]/", { HTTPS_PROXY: proxy }, undefined],
  // NO_PROXY
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "*" }, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "mcp.example" }, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "a.example, MCP.Example" }, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "example" }, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: ".example" }, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "*.example" }, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "cp.example" }, proxy],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "mcp.example.org" }, proxy],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "mcp.example:443" }, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "mcp.example:8443" }, proxy],
  ["https://mcp.example:8443/", { HTTPS_PROXY: proxy, NO_PROXY: "mcp.example:8443" }, undefined],
  ["https://10.0.0.7/", { HTTPS_PROXY: proxy, NO_PROXY: "10.0.0.7" }, undefined],
  ["https://[fd00::1]/", { HTTPS_PROXY: proxy, NO_PROXY: "fd00::1" }, undefined],
  ["https://[fd00::1]/", { HTTPS_PROXY: proxy, NO_PROXY: "[fd00::1]:443" }, undefined],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: "a.example", no_proxy: "" }, proxy],
  ["https://mcp.example/", { HTTPS_PROXY: proxy, NO_PROXY: ", ," }, proxy],
])("%s with %j is reached through %s", (url, env, expected) => {
  expect(proxyFor(new URL(url), env)?.origin).toBe(expected);
});

test.each(["socks5://u:secret@proxy.example", "http://", "ftp://secret", "http://[", "a b"])(
  "%s is not a proxy, and the error does not repeat it",
  (text) => {
    const read = (): unknown => proxyFor(new URL("https://mcp.example/"), { HTTPS_PROXY: text });
    expect(read).toThrow(/write it like/);
    expect(read).not.toThrow(/secret/);
  },
);

/** A proxy that treats each connection as scripted, and how many came. */
async function startProxy(act: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    act(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { proxy: new URL(`http://127.0.0.1:${port}`), count: () => sockets.size, sockets };
}

const answering =
  (text: string) =>
  (socket: Socket): void =>
    void socket.once("data", () => socket.write(text, "latin1"));

test.each<[string, (socket: Socket) => void, string]>([
  ["closes at once", (socket) => socket.destroy(), "unavailable"],
  [
    "closes when it is asked",
    (socket) => socket.once("data", () => socket.destroy()),
    "unavailable",
  ],
  ["resets", (socket) => socket.once("data", () => socket.resetAndDestroy()), "unavailable"],
  ["ends politely", (socket) => socket.once("data", () => socket.end()), "unavailable"],
  ["never answers", (socket) => socket.resume(), "unavailable"],
  ["answers half", answering("HTTP/1.1 200 O"), "unavailable"],
  [
    "answers without an end",
    answering(`HTTP/1.1 200 OK\r\nX: ${"x".repeat(40_000)}`),
    "unavailable",
  ],
  ["answers interim for ever", answering("HTTP/1.1 103 E\r\n\r\n".repeat(9)), "unavailable"],
  ["speaks something else", answering("SSH-2.0-proxy\r\n"), "unavailable"],
  ["wants a password", answering("HTTP/1.1 407 No\r\n\r\nsecret"), "permission_denied"],
  ["forbids it", answering("HTTP/1.1 403 No\r\n\r\nsecret"), "permission_denied"],
  ["cannot", answering("HTTP/1.1 502 No\r\n\r\nsecret"), "unavailable"],
  ["speaks before the server", answering("HTTP/1.1 200 OK\r\n\r\nsecret"), "protocol"],
  [
    "closes instead of TLS",
    (socket) =>
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\n\r\n");
        socket.once("data", () => socket.destroy());
      }),
    "ECONNRESET",
  ],
  ["is silent instead of TLS", answering("HTTP/1.1 200 OK\r\n\r\n"), "unavailable"],
])("a proxy that %s is one attempt and one error", async (_, act, code) => {
  const { proxy: address, count, sockets } = await startProxy(act);
  const fault = await openTunnel(address, { url: new URL("https://mcp.example/") }, 300).catch(
    (error: unknown) => error as Error & { code: string },
  );
  expect(fault).toMatchObject({ code });
  expect((fault as Error).message).not.toContain("secret");
  expect(count()).toBe(1);
  // nothing of it stays open
  await expect.poll(() => [...sockets].every(({ readyState }) => readyState !== "open")).toBe(true);
});

test("a tunnel carries bytes both ways, with the name and password of the proxy only in its request", async () => {
  const heads: string[] = [];
  const { proxy: address } = await startProxy((socket) => {
    socket.once("data", (head) => {
      heads.push(head.toString());
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.on("data", (chunk) => socket.write(chunk));
    });
  });
  Object.assign(address, { username: "us%40er", password: "100%" });
  const socket = await openTunnel(address, { url: new URL("http://[fd00::1]:8080/mcp") }, 5_000);
  socket.write("hello");
  const [echoed] = (await once(socket, "data")) as [Buffer];
  expect(echoed.toString()).toBe("hello");
  socket.destroy();
  const pair = Buffer.from("us@er:100%").toString("base64");
  expect(heads[0]?.split("\r\n")).toEqual(
    expect.arrayContaining([
      "CONNECT [fd00::1]:8080 HTTP/1.1",
      `proxy-authorization: Basic ${pair}`,
    ]),
  );
});
