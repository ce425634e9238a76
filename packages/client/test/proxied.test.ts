import { createServer, type Server } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";
import { scopeOf, type HopScope } from "../src/trust/classify-address.ts";

let proxy: Server;
let site: Server;
let asked: string[] = [];
const portOf = (server: Server): number => (server.address() as AddressInfo).port;

// every name leads to one site, as behind the proxy of a company
beforeEach(async () => {
  asked = [];
  site = createServer((request, response) => response.end(`${request.headers.host} here`));
  proxy = createServer();
  proxy.on("connect", (request, client: Socket) => {
    asked.push(request.url ?? "");
    const far = connect(portOf(site), "127.0.0.1", () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      client.pipe(far).pipe(client);
    });
    for (const socket of [client, far]) socket.on("error", () => socket.destroy());
  });
  for (const server of [site, proxy])
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  vi.stubEnv("HTTP_PROXY", `http://127.0.0.1:${portOf(proxy)}`);
});
afterEach(() => {
  vi.unstubAllEnvs();
  for (const server of [site, proxy]) {
    server.closeAllConnections();
    server.close();
  }
});

async function get(url: string, scope: HopScope, exchange = createHttpExchange()) {
  const { signal } = new AbortController();
  const request = { method: "GET", url: new URL(url), headers: {}, signal, scope } as const;
  const answer = await exchange({ ...request, connectMs: 5_000 });
  const chunks: Uint8Array[] = [];
  await answer.body.pump((chunk) => void chunks.push(new Uint8Array(chunk)));
  return { ...answer, text: Buffer.concat(chunks).toString() };
}

test("bytes come through the proxy of the environment", async () => {
  const { status, text } = await get("http://files.example/a", "public");
  expect([status, text]).toEqual([200, "files.example here"]);
  expect(asked).toEqual(["files.example:80"]);
});

test("the address of the proxy is not taken for that of the server: what it names stays public", async () => {
  const endpoint = new URL("http://files.example/mcp");
  const { address } = await get(endpoint.href, "any");
  expect(address).toBeUndefined();
  expect(scopeOf({ endpoint, address })).toBe("public");
});

test.each([
  "http://10.0.0.7/",
  "http://169.254.169.254/",
  "http://127.0.0.1:9/",
  "http://[::1]:9/",
])("%s is not a public address, with a proxy or without", async (url) => {
  await expect(get(url, "public")).rejects.toMatchObject({ code: "untrusted" });
  expect(asked).toEqual([]);
});

test("this machine is reached directly", async () => {
  const { text } = await get(`http://127.0.0.1:${portOf(site)}/`, "any");
  expect(text).toMatch(/here$/);
  expect(asked).toEqual([]);
});

test("an exchange for files that third parties name uses no proxy, and checks where it connects to", async () => {
  const lookup = ((_name: string, _options: unknown, done: (...args: unknown[]) => void) =>
    done(null, [{ address: "127.0.0.1", family: 4 }])) as never;
  const exchange = createHttpExchange({ lookup, direct: true });
  await expect(get("http://files.example/", "public", exchange)).rejects.toMatchObject({
    code: "untrusted",
  });
  expect(asked).toEqual([]);
});
