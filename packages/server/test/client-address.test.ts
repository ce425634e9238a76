import type { IncomingMessage } from "node:http";
import { createClientAddress } from "@sluice/server/internal/node";
import { expect, test } from "vitest";
import { addressShare } from "../src/limits/share.ts";
import { createHouse } from "./redeeming.ts";

const request = (remoteAddress: string | undefined, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
  }) as unknown as IncomingMessage;

test("without proxies the address is that of the socket, whatever headers say", () => {
  const addressOf = createClientAddress(0);
  expect(addressOf(request("192.0.2.7", "203.0.113.1"))).toBe("192.0.2.7");
  expect(addressOf(request(undefined, "203.0.113.1"))).toBeUndefined();
});

test("the address of a socket is read once, and again while it has none", () => {
  const addressOf = createClientAddress(0);
  let reads = 0;
  const socket = {
    get remoteAddress() {
      reads++;
      return reads === 1 ? undefined : "::ffff:192.0.2.7";
    },
  };
  const one = { socket, headers: {} } as unknown as IncomingMessage;
  expect([addressOf(one), addressOf(one), addressOf(one)]).toEqual([
    undefined,
    "192.0.2.7",
    "192.0.2.7",
  ]);
  expect(reads).toBe(2);
  expect(addressOf(request("192.0.2.8"))).toBe("192.0.2.8");
});

test("each request of a connection behind a proxy has the address in its own header", () => {
  const { socket } = request("127.0.0.1");
  const addressOf = createClientAddress(1);
  createClientAddress(0)({ socket, headers: {} } as unknown as IncomingMessage);
  const said = ["192.0.2.1", "192.0.2.2", undefined].map((made) =>
    addressOf({ socket, headers: { "x-forwarded-for": made } } as unknown as IncomingMessage),
  );
  expect(said).toEqual(["192.0.2.1", "192.0.2.2", "127.0.0.1"]);
});

test("the address is believed for as many hops as there are proxies, from the right", () => {
  const made = "203.0.113.9, 198.51.100.2, 10.0.0.1";
  expect(createClientAddress(1)(request("127.0.0.1", made))).toBe("10.0.0.1");
  expect(createClientAddress(2)(request("127.0.0.1", made))).toBe("198.51.100.2");
  expect(createClientAddress(9)(request("127.0.0.1", made))).toBe("203.0.113.9");
  // a UNIX socket has no address of its own
  expect(createClientAddress(1)(request(undefined, made))).toBe("10.0.0.1");
});

test("neither an invalid entry nor the entries left of it are trusted", () => {
  const addressOf = createClientAddress(3);
  expect(addressOf(request("10.0.0.1", "203.0.113.9, unknown, 198.51.100.2"))).toBe("198.51.100.2");
  expect(addressOf(request("10.0.0.1", "999.1.1.1"))).toBe("10.0.0.1");
  expect(addressOf(request("10.0.0.1", ",,"))).toBe("10.0.0.1");
  expect(addressOf(request("10.0.0.1", "1".repeat(16_384)))).toBe("10.0.0.1");
});

test("one address has one form", () => {
  const addressOf = createClientAddress(1);
  for (const [entry, address] of [
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["::FFFF:c000:0201", "192.0.2.1"],
    ["192.0.2.1:4711", "192.0.2.1"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["[2001:db8::1]:443", "2001:db8::1"],
    ["fe80::1%eth0", "fe80::1"],
    ["::1", "::1"],
  ] as const)
    expect(addressOf(request("10.0.0.1", entry))).toBe(address);
});

test("a number of proxies is a whole number from 0", () => {
  for (const hops of [-1, 1.5, Number.NaN])
    expect(() => createHouse({ clientAddress: hops })).toThrow(RangeError);
});

test("a share is that of an IPv4 address or of the /64 of an IPv6 address", () => {
  expect(addressShare("192.0.2.1")).toBe("192.0.2.1");
  expect(addressShare("2001:db8:1:2:3:4:5:6")).toBe("2001:db8:1:2::/64");
  expect(addressShare("2001:db8:1:2::9")).toBe("2001:db8:1:2::/64");
  expect(addressShare("2001:db8::1")).toBe("2001:db8:0:0::/64");
  expect(addressShare("::1")).toBe("0:0:0:0::/64");
  expect(addressShare(undefined)).toBeUndefined();
});
