// @module-tag slow
import { rm, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DeliveryMode } from "@sluice/core/internal";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DownloadOrder, DownloadReport } from "../bed/programs/download.ts";
import type { ServeSettings } from "../bed/programs/serve.ts";
import { startProgram, type Program } from "../bed/program.ts";
import type { Memory } from "../bed/watch.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const mib = 2 ** 20;
// newer releases of Node, and files of 8 GiB, let more garbage gather before it is collected: up to 80 MiB were seen
const isWide = deep || !process.versions.node.startsWith("20.");
const mostGrowth = (isWide ? 96 : 48) * mib;
const size = deep ? 8_192 * mib : mostGrowth + 48 * mib;
const keptSize = mostGrowth + 80 * mib;
const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];
type Use = NonNullable<DownloadOrder["use"]>;

let folder: string;
let server: Program<{ url: string; redirectOrigins: string[] }>;
let client: Program<string>;
let idle: readonly [server: Memory, client: Memory];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-memory-"));
  const settings: ServeSettings = {
    sparse: Object.fromEntries(
      modes.flatMap((mode) => [
        [`${mode}/large.bin`, size],
        [`${mode}/medium.bin`, keptSize],
        [`${mode}/small.bin`, 16 * mib],
      ]),
    ),
  };
  [server, client] = await Promise.all([
    startProgram<typeof server.hello>("serve", settings),
    startProgram<string>("download"),
  ]);
  // code that is compiled and buffers that are pooled belong to the idle state
  for (const mode of modes) await download(`${mode}/small.bin`, "count");
  await download("direct/small.bin", "save");
  await download(`made://site/${16 * mib}.bin`, "count");
  idle = await measure();
}, 60_000);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

function download(name: string, use: Use): Promise<DownloadReport> {
  const { url, redirectOrigins } = server.hello;
  return client.ask<DownloadReport>({
    url,
    uri: name.startsWith("made:") ? name : `files://site/${name}`,
    trustedOrigins: redirectOrigins,
    maxStreamBytes: Math.max(size, keptSize),
    use,
    path: join(folder, name.replaceAll(/\W/g, "-")),
  } satisfies DownloadOrder);
}

const measure = async (): Promise<typeof idle> => [
  await server.ask<Memory>("memory"),
  await client.ask<Memory>("memory"),
];

/** Bytes by which server and client grew over their idle state. */
async function growthOf(name: string, use: Use): Promise<{ server: number; client: number }> {
  await measure();
  const { bytes } = await download(name, use);
  const busy = await measure();
  const growth = { server: busy[0].peak - idle[0].now, client: busy[1].peak - idle[1].now };
  const grown = (end: number) => `+${(end / mib).toFixed(1)} MiB`;
  process.stdout.write(
    `${name}, ${bytes! / mib} MiB, ${use}: server ${grown(growth.server)}, client ${grown(growth.client)}\n`,
  );
  return growth;
}

describe(`${size / mib} MiB leave memory as it was, on both ends`, () => {
  test.each<[DeliveryMode, Use]>([
    ["direct", "count"],
    ["redirect", "count"],
    ["downloadUrl", "save"],
  ])(
    "%s, %s [SEP-2532/3.client/should-stream-incrementally]",
    async (mode, use) => {
      const growth = await growthOf(`${mode}/large.bin`, use);
      expect(growth.server).toBeLessThanOrEqual(mostGrowth);
      expect(growth.client).toBeLessThanOrEqual(mostGrowth);
    },
    deep ? 600_000 : 60_000,
  );

  test(
    "if a provider makes them",
    async () => {
      const growth = await growthOf(`made://site/${size}.bin`, "count");
      expect(growth.server).toBeLessThanOrEqual(mostGrowth);
      expect(growth.client).toBeLessThanOrEqual(mostGrowth);
    },
    deep ? 600_000 : 60_000,
  );

  test("negative control: a client that keeps the bytes is detected", async () => {
    const growth = await growthOf("direct/medium.bin", "keep");
    expect(growth.client).toBeGreaterThan(mostGrowth);
  });
});
