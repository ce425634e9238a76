import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { handWritten } from "../../bridge/test/filing.ts";
import {
  leaveHalf,
  literalResult,
  type LiteralResource,
  sendLiteral,
} from "../../client/test/half-saved.ts";
import { runHere } from "./run-here.ts";

const content = Buffer.alloc(3_000_000, "0123456789 and so on / ");
const uri = "x://a/big.bin";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-get-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** A server that knows none of our code, with one resource. */
async function startLiteral(resource: LiteralResource): Promise<URL> {
  const url: URL = await handWritten(
    ({ method, params }) => literalResult(method, params, new URL("/d/big.bin", url)),
    (request, response) => sendLiteral(resource, request, response),
    true,
  );
  return url;
}

test.each([
  ["a folder", "", "big.bin", []],
  ["a file", "copy.bin", "copy.bin", []],
  ["a folder, over several connections", "", "big.bin", ["--connections", "4"]],
])("a run to %s asks only for what an earlier one has not got", async (_, to, name, args) => {
  const resource: LiteralResource = { uri, content, etag: '"1"', ranges: [] };
  const server = await startLiteral(resource);
  await leaveHalf(folder, name, resource, 2_000_000);
  const command = ["get", server.href, uri, "-o", join(folder, to), "--json", ...args];
  const { stdout, stderr, status } = await runHere(command);
  expect([status, stderr]).toEqual([0, ""]);
  expect(JSON.parse(stdout).resumedBytes).toBe(2_000_000);
  expect(resource.ranges).toEqual(["bytes=2000000-"]);
  expect((await readFile(join(folder, name))).equals(content)).toBe(true);
  expect(await readdir(folder)).toEqual([name]);
});

test("a run finds another version by its first request, and saves all of that", async () => {
  const resource: LiteralResource = { uri, content, etag: '"2"', ranges: [] };
  const server = await startLiteral(resource);
  await leaveHalf(folder, "big.bin", { ...resource, etag: '"1"' }, 2_000_000);
  const { stdout } = await runHere(["get", server.href, uri, "-o", folder, "--json"]);
  expect(JSON.parse(stdout).resumedBytes).toBe(0);
  expect(resource.ranges).toEqual(["bytes=2000000-"]);
  expect((await readFile(join(folder, "big.bin"))).equals(content)).toBe(true);
});
