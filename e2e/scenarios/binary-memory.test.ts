// @module-tag slow
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProgram, type Program } from "../bed/program.ts";
import type { MoveOrder, MoveReport } from "../bed/programs/move-binary.ts";
import type { ServeBinarySettings } from "../bed/programs/serve-binary.ts";
import type { Memory } from "../bed/watch.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const mib = 2 ** 20;
const size = (deep ? 1_024 : 64) * mib;
// newer releases of Node let more garbage gather before they collect it
const mostGrowth = (process.versions.node.startsWith("20.") ? 48 : 96) * mib;

let server: Program<string>;
let client: Program<string>;
let idle: readonly [server: Memory, client: Memory];

type Work = Omit<MoveOrder, "url">;

const move = (work: Work): Promise<MoveReport> =>
  client.ask<MoveReport>({ url: server.hello, ...work } satisfies MoveOrder);
const measure = async (): Promise<typeof idle> => [
  await server.ask<Memory>("memory"),
  await client.ask<Memory>("memory"),
];

beforeAll(async () => {
  const settings: ServeBinarySettings = {
    sparse: { "large.bin": size, "small.bin": 8 * mib, "medium.bin": mostGrowth + 16 * mib },
  };
  [server, client] = await Promise.all([
    startProgram<string>("serve-binary", settings),
    startProgram<string>("move-binary"),
  ]);
  // code that is compiled and buffers that are pooled belong to the idle state
  for (const over of ["http", "websocket"] as const) {
    await move({ over, uri: "files://site/small.bin" });
    await move({ over, size: 8 * mib });
  }
  idle = await measure();
}, 60_000);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
});

async function growthOf(work: Work): Promise<{ server: number; client: number }> {
  await measure();
  const report = await move(work);
  const busy = await measure();
  const growth = { server: busy[0].peak - idle[0].now, client: busy[1].peak - idle[1].now };
  const { seconds = 0, pingsMs = [], bytes, transferMode, error } = report;
  const grown = (end: number) => `+${(end / mib).toFixed(1)} MiB`;
  process.stdout.write(
    `${JSON.stringify(work)} ${error ?? ""}: ${bytes! / mib} MiB in ${seconds.toFixed(2)} s, server ${grown(growth.server)}, client ${grown(growth.client)}, ` +
      `${pingsMs.length} pings, median ${pingsMs[pingsMs.length >> 1]?.toFixed(1)} ms, slowest ${pingsMs.at(-1)?.toFixed(1)} ms\n`,
  );
  expect([error, bytes, transferMode]).toEqual([undefined, bytes, "binary"]);
  return growth;
}

describe(`${size / mib} MiB leave memory as it was, on both ends`, () => {
  test.each<Work>([
    { over: "http", uri: "files://site/large.bin" },
    { over: "http", size },
    { over: "websocket", uri: "files://site/large.bin" },
    { over: "websocket", size },
  ])("%j", async (work) => {
    const growth = await growthOf(work);
    expect(growth.server).toBeLessThanOrEqual(mostGrowth);
    expect(growth.client).toBeLessThanOrEqual(mostGrowth);
  });

  test("negative control: a client that keeps the bytes is detected", async () => {
    const growth = await growthOf({ over: "http", uri: "files://site/medium.bin", use: "keep" });
    expect(growth.client).toBeGreaterThan(mostGrowth);
  });
});
