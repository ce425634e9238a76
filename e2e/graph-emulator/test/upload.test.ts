import { type GraphEmulator, startGraphEmulator } from "@sluice/graph-emulator";
import { expect, test } from "vitest";
import { at, call } from "./graph-call.ts";

const unit = 327_680;

const open = async (emulator: GraphEmulator, options: object = {}): Promise<string> => {
  const body = JSON.stringify(options);
  const answer = await call(emulator, `${at("up.bin")}:/createUploadSession`, {
    method: "POST",
    body,
  });
  expect(answer.body.nextExpectedRanges).toEqual(["0-"]);
  return answer.body.uploadUrl;
};
const put = async (
  url: string,
  start: number,
  length: number,
  total: number,
  headers = {},
): Promise<{ status: number; body: any }> => {
  const range = `bytes ${start}-${start + length - 1}/${total}`;
  const init = {
    method: "PUT",
    body: new Uint8Array(length),
    headers: { "content-range": range, ...headers },
  };
  const answer = await fetch(url, init);
  const body: any = await answer.json().catch(() => undefined);
  return { status: answer.status, body };
};

test(
  "fragments come in order, in multiples of 320 KiB, with one total and without a bearer",
  { tags: "slow" },
  async () => {
    await using emulator = await startGraphEmulator();
    const url = await open(emulator);
    const total = 2 * unit + 5;
    expect((await put(url, 0, unit, total, { authorization: "Bearer x" })).status).toBe(401);
    expect((await put(url, 0, unit - 1, total)).status).toBe(400);
    expect(await put(url, 0, unit, total)).toMatchObject({
      status: 202,
      body: { nextExpectedRanges: [`${unit}-${total - 1}`] },
    });
    expect((await put(url, unit, unit, total + 1)).status).toBe(400);
    expect((await put(url, 0, unit, total)).body.error.innerError.code).toBe("fragmentOverlap");
    expect((await put(url, 2 * unit, 5, total)).body.error.innerError.code).toBe(
      "fragmentOutOfOrder",
    );
    expect((await put(url, unit, unit, total)).status).toBe(202);
    expect((await put(url, 2 * unit, 5, total)).status).toBe(201);
    expect((await put(url, 2 * unit, 5, total)).status).toBe(404);
    expect((await call(emulator, at("up.bin"))).body.size).toBe(total);
  },
);

test("a session can be asked, cancelled, deferred, and fails late on a name that was taken", async () => {
  await using emulator = await startGraphEmulator();
  const cancelled = await open(emulator);
  expect(emulator.openSessions()).toBe(1);
  expect((await fetch(cancelled, { method: "DELETE" })).status).toBe(204);
  expect((await fetch(cancelled)).status).toBe(404);
  expect(emulator.openSessions()).toBe(0);

  const deferred = await open(emulator, { deferCommit: true });
  expect((await fetch(deferred, { method: "POST" })).status).toBe(400);
  expect((await put(deferred, 0, 10, 10)).status).toBe(202);
  expect((await call(emulator, at("up.bin"))).status).toBe(404);
  expect((await fetch(deferred, { method: "POST" })).status).toBe(201);
  emulator.drive.remove("up.bin");

  const late = await open(emulator);
  emulator.drive.put("up.bin", "taken");
  expect((await put(late, 0, 10, 10)).status).toBe(409);
  expect(await (await fetch(late)).json()).toMatchObject({ nextExpectedRanges: ["0-9"] });
  const refused = await call(emulator, `${at("up.bin")}:/createUploadSession`, {
    method: "POST",
    body: "{}",
  });
  expect(refused.status).toBe(409);
});

test("a connection that breaks in a fragment keeps nothing of it", async () => {
  await using emulator = await startGraphEmulator();
  const url = await open(emulator);
  emulator.fault({ on: /^PUT upload/, resetAfter: 1000 });
  await expect(put(url, 0, 4 * unit, 4 * unit)).rejects.toThrow("fetch failed");
  expect(await (await fetch(url)).json()).toMatchObject({ nextExpectedRanges: ["0-"] });
});
