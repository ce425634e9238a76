import * as portable from "../src/index.ts";
import type * as internal from "../src/internal.ts";
import { afterEach, expect, test, vi } from "vitest";
import { createLoader } from "../src/net/load-code.ts";
import { startFileServer } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";

const lost = new TypeError("Failed to fetch dynamically imported module");

test("code that does not come is a fault that says so, and is asked for again", async () => {
  let tries = 0;
  const load = createLoader(async () => {
    if (++tries < 3) throw lost;
    return "code";
  }, "the code");
  const fault = { code: "unavailable", message: "client: the code could not be loaded; try again" };
  await expect(load()).rejects.toMatchObject({ ...fault, cause: lost });
  await expect(Promise.all([load(), load()])).rejects.toMatchObject(fault);
  expect(tries).toBe(2);
  expect([await load(), await load(), tries]).toEqual(["code", "code", 3]);
});

const uri = "files://demo/notes.txt";
const digest = `sha-256=:${"A".repeat(43)}=:`;

afterEach(() => {
  vi.doUnmock("@sluice/core/internal/sha256");
  vi.doUnmock("../src/download/refused-call.ts");
  vi.resetModules();
});

/** The portable code as a page has it that cannot load one of its parts. */
async function importWithout(part: string): Promise<typeof portable & typeof internal> {
  vi.resetModules();
  vi.doMock(part, () => {
    throw lost;
  });
  return { ...(await import("../src/index.ts")), ...(await import("../src/internal.ts")) };
}

test("bytes that cannot be checked are not given, and their connection is closed", async () => {
  let closed: (() => void) | undefined;
  const closing = new Promise<void>((resolve) => (closed = resolve));
  await using server = await startFileServer({
    content: Buffer.alloc(20_000_000),
    digest,
    before(_, res) {
      res.once("close", () => closed?.());
      return false;
    },
  });
  const { streamResource, withStreaming } = await importWithout("@sluice/core/internal/sha256");
  const client = createRawClient(server.url, withStreaming());
  const { body } = await streamResource(client, uri, { prefer: ["downloadUrl"] });
  await expect(new Response(body).arrayBuffer()).rejects.toMatchObject({
    code: "unavailable",
    message: "client: SHA-256 could not be loaded; try again",
  });
  await closing;
});

test("a refusal that cannot be named keeps what the SDK said", async () => {
  const refusal = Object.assign(new Error("no such resource"), { code: -32_002 });
  const request = (): Promise<never> => Promise.reject(refusal);
  const named = portable.streamResource({ request }, uri);
  await expect(named).rejects.toMatchObject({ code: "not_found", cause: refusal });
  const { streamResource } = await importWithout("../src/download/refused-call.ts");
  const unnamed = streamResource({ request }, uri);
  await expect(unnamed).rejects.toMatchObject({ code: "unavailable", cause: refusal });
});
