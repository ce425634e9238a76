import { type GraphEmulator, startGraphEmulator } from "@sluice/graph-emulator";
import { expect, test } from "vitest";
import { at, call } from "./graph-call.ts";

const mint = async (emulator: GraphEmulator, name: string): Promise<string> =>
  (await call(emulator, `${at(name)}:/content`)).headers.get("location") ?? "";

test("ranges, suffixes, and wholes for what is no range", async () => {
  await using emulator = await startGraphEmulator();
  emulator.drive.put("a.txt", "0123456789");
  const url = await mint(emulator, "a.txt");
  const get = async (range: string) => {
    const answer = await fetch(url, { headers: { range } });
    return [answer.status, await answer.text(), answer.headers.get("content-range")];
  };
  expect(await get("bytes=2-4")).toEqual([206, "234", "bytes 2-4/10"]);
  expect(await get("bytes=8-99")).toEqual([206, "89", "bytes 8-9/10"]);
  expect(await get("bytes=-3")).toEqual([206, "789", "bytes 7-9/10"]);
  expect(await get("bytes=10-")).toEqual([416, "", "bytes */10"]);
  expect(await get("bytes=0-1,4-5")).toEqual([200, "0123456789", null]);
});

test("a URL is anonymous, exact, current, and over after its time", async () => {
  await using emulator = await startGraphEmulator({ linkTtlMs: 60_000, expiredStatus: 403 });
  emulator.drive.put("a.txt", "first");
  const url = await mint(emulator, "a.txt");
  emulator.drive.put("a.txt", "second");
  expect(await (await fetch(url)).text()).toBe("second");
  expect((await fetch(url.replace("%2b", "%2B"))).status).toBe(401);
  expect((await fetch(url, { headers: { authorization: "Bearer x" } })).status).toBe(401);
  for (const method of ["PUT", "DELETE", "POST"])
    expect((await fetch(url, { method })).status).toBe(405);
  emulator.passTime(60_001);
  expect((await fetch(url)).status).toBe(403);
  const fresh = await mint(emulator, "a.txt");
  emulator.drive.remove("a.txt");
  expect((await fetch(fresh)).status).toBe(404);
});

test("a file of any size costs no memory", async () => {
  await using emulator = await startGraphEmulator();
  const size = 2 ** 40;
  emulator.drive.put("big", {
    size,
    read: (start, end) => new Uint8Array(end - start).fill(start % 251),
  });
  const range = `bytes=${size - 3}-`;
  const answer = await fetch(await mint(emulator, "big"), { headers: { range } });
  const byte = (size - 3) % 251;
  expect([...new Uint8Array(await answer.arrayBuffer())]).toEqual([byte, byte, byte]);
});
