import type { LookupAddress } from "node:dns";
import { afterAll, beforeAll, expect, test } from "vitest";
import { classifyAddress } from "../src/trust/classify-address.ts";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";
import type { AddressScope } from "../src/trust/classify-address.ts";
import { startRawServer, type RawServer } from "./raw-server.ts";

const inner = [
  "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1",
  "100.127.255.255", "168.63.129.16", "169.254.169.254", "169.254.0.1", "172.16.0.1",
  "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.31.196.1", "192.52.193.1",
  "192.88.99.1", "192.168.0.1", "192.168.255.255", "192.175.48.1", "198.18.0.1", "198.19.255.255",
  "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
  "::", "::1", "::2", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe",
  "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "2001::1",
  "2001:10::1", "2001:20::1", "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::1", "2002:808:808::1",
  "3fff::1", "3fff:fff:ffff::1", "fc00::1", "fd12:3456:789a::1", "fe80::1", "fec0::1", "ff02::1",
  "ff0e::1", "4000::1", "8000::1", "5f00::1", "::ffff:0:127.0.0.1", "0:0:0:0:0:0:0:1",
]; // prettier-ignore
const outer = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "198.20.0.1", "223.255.255.255",
  "2606:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "2001:200::1", "3ffe::1", "3fff:1000::1",
  "::ffff:8.8.8.8", "2400::1"]; // prettier-ignore

let canary: RawServer;
beforeAll(async () => {
  canary = await startRawServer({});
});
afterAll(() => canary[Symbol.asyncDispose]());

test("no address inside a special-purpose block counts as public", () => {
  expect(inner.length).toBeGreaterThanOrEqual(60);
  for (const address of inner) expect(classifyAddress(address), address).not.toBe("public");
  for (const address of outer) expect(classifyAddress(address), address).toBe("public");
});

test("rejects what is not an address", () => {
  for (const text of [
    "",
    "localhost",
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "1.2.3.4 ",
    "::1%eth0",
    "1::2::3",
    "12345::",
    ":::",
    "::ffff:1.2.3.256",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "[::1",
  ])
    expect(classifyAddress(text), text).toBeUndefined();
});

// the exchange gets the address from its resolver, as after a change of DNS between check and use
function resolvingTo(...addresses: string[]) {
  const found: LookupAddress[] = addresses.map((address) => ({
    address,
    family: address.includes(":") ? 6 : 4,
  }));
  let asked = 0;
  const lookup = ((
    _host: string,
    _options: object,
    callback: (error: null, all: LookupAddress[]) => void,
  ) => {
    asked++;
    setImmediate(() => callback(null, found));
  }) as never;
  return { exchange: createHttpExchange({ lookup }), asked: () => asked };
}

function get(exchange: ReturnType<typeof createHttpExchange>, url: string, scope: AddressScope) {
  const signal = AbortSignal.timeout(5_000);
  return exchange({
    method: "GET",
    url: new URL(url),
    headers: {},
    signal,
    scope,
    connectMs: 1_000,
  });
}

test("a name that resolves inside is never connected to", async () => {
  const { port } = new URL(canary.origin);
  for (const address of inner) {
    const { exchange, asked } = resolvingTo(address);
    const refused = await get(exchange, `http://rebinding.example:${port}/`, "public").catch(
      (error) => error,
    );
    expect(refused, address).toMatchObject({ code: "untrusted" });
    expect(asked()).toBe(1);
  }
  expect(canary.connections()).toBe(0);
});

test("one inner address among public ones spoils them all", async () => {
  const { exchange } = resolvingTo("8.8.8.8", "127.0.0.1");
  await expect(get(exchange, "http://mixed.example/", "public")).rejects.toMatchObject({
    code: "untrusted",
  });
});

test("an address in the URL itself is checked, although no resolver ever sees it", async () => {
  const { port } = new URL(canary.origin);
  const { exchange, asked } = resolvingTo("8.8.8.8");
  const spellings = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "0",
    "0.0.0.0",
    "[::]",
    "①②⑦.0.0.1",
  ];
  for (const host of spellings)
    await expect(get(exchange, `http://${host}:${port}/`, "public"), host).rejects.toMatchObject({
      code: "untrusted",
    });
  expect(asked()).toBe(0);
  expect(canary.connections()).toBe(0);
});

test("the same request without the guard does connect", async () => {
  const { port } = new URL(canary.origin);
  const answer = await get(createHttpExchange(), `http://127.1:${port}/`, "any");
  answer.body.cancel();
  expect(canary.connections()).toBe(1);
});

test("a connection that was opened unguarded is not taken by a guarded request", async () => {
  const { exchange } = resolvingTo("127.0.0.1");
  const { port } = new URL(canary.origin);
  const first = await get(exchange, `http://name.example:${port}/`, "any").catch((error) => error);
  if ("body" in first) await first.body.pump(() => {});
  await expect(get(exchange, `http://name.example:${port}/`, "public")).rejects.toMatchObject({
    code: "untrusted",
  });
});
