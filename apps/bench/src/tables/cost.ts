/** Tables of what single things cost: a token, a refusal, an import, a page. */
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { createKeyRing, createSealer, formatKey, generateKey, resourceTag } from "@sluice/core";
import { createTokenStore } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { build, type Plugin } from "vite";
import { KiB, type Bench } from "../lib/bench.ts";
import { runToEnd } from "../lib/processes.ts";
import { startSluiceServer, uriOf } from "../lib/sluice.ts";
import { quantile, summarise, type Sample } from "../lib/statistics.ts";
import {
  each,
  interleave,
  type MeasuredSubject,
  type Quantity,
  type TableSpec,
} from "../lib/table.ts";

const app = fileURLToPath(new URL("../../", import.meta.url));
const ascending = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);

const tokenCount = (bench: Bench): number => (bench.quick ? 2_000 : 20_000);
const wholeToken = "seal, unseal, match the holder and claim";

/** What download tokens cost. */
export const tokens: TableSpec = {
  id: "tokens",
  title: "Download tokens",
  how: (bench) =>
    `Microseconds of one step after another in one process, ${tokenCount(bench)} times.`,
  columns: [
    { key: "p50", title: "p50 µs", digits: 1, is: each("p50") },
    { key: "p99", title: "p99 µs", digits: 1, is: each("p99") },
  ],
  promises: [
    { claim: "mint and redeem, p99 in µs", of: wholeToken, is: each("p99"), atMost: 1000 },
  ],
  async measure(bench) {
    const server = {
      keys: createKeyRing(formatKey(generateKey())),
      audience: "https://mcp.example.com/mcp",
    };
    const sealer = createSealer(server);
    const count = tokenCount(bench);
    // one caller gets all of them
    const state = createMemoryStateStore({ records: { perPrincipal: 2 * count } });
    const stored = createTokenStore({ ...server, state });
    const principal = { issuer: "https://id.example.com", subject: "reader", clientId: "bench" };
    const terms = { key: "reports/2026/all.bin", principal, use: "lease" } as const;
    const seal = (): string => sealer.seal("download", terms).token;
    const token = seal();
    const { token: kept } = await stored.issue("download", terms);
    const mintAndRedeem = async (): Promise<void> => {
      const grant = sealer.unseal("download", seal());
      if (!grant.matchesPrincipal(principal)) throw new Error("bench: a token lost its holder");
      const { id, use, issuedAt, expiresAt, key } = grant;
      const resource = resourceTag(key);
      await state.claim({ id, principal: "", resource, use, issuedAt, expiresAt }, Date.now());
    };
    const steps = {
      seal,
      unseal: () => sealer.unseal("download", token),
      "issue a stored one, in memory": () => stored.issue("download", terms),
      "open a stored one, in memory": () => stored.open("download", kept),
      [wholeToken]: mintAndRedeem,
    };
    const subjects: MeasuredSubject[] = [];
    for (const [name, step] of Object.entries(steps)) {
      const sorted = await timesOf(step, count);
      const sample = { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
      subjects.push({ name, samples: [sample] });
    }
    await state.close?.();
    return { subjects };
  },
};

/** Microseconds of each of `count` runs of `step`, ascending, after a warm-up. */
async function timesOf(step: () => unknown, count: number): Promise<readonly number[]> {
  const times: number[] = [];
  for (let i = 0; i < count + 1000; i++) {
    const startedAt = performance.now();
    await step();
    if (i >= 1000) times.push((performance.now() - startedAt) * 1000);
  }
  return ascending(times);
}

const readCount = (bench: Bench): number => (bench.quick ? 500 : 5_000);

/** Times of a refusal: what access rules hide must not be told from what is missing. */
export const hidden: TableSpec = {
  id: "hidden",
  title: "Hidden and missing resources",
  how: (bench) =>
    `Median time of ${readCount(bench)} \`resources/read\`, asked in turn with as many of a missing resource: by how many percent it differs from theirs.`,
  columns: [{ key: "differs", title: "%", digits: 2, is: each("differs") }],
  promises: [{ claim: "hidden from missing, %", of: "hidden", is: each("differs"), atMost: 5 }],
  async measure(bench, running) {
    const file = await bench.file(1_024);
    await copyFile(join(bench.files, file), join(bench.files, "secret"));
    const { endpoint } = running.use(await startSluiceServer(bench));
    const subjects: MeasuredSubject[] = [];
    for (const [name, key] of Object.entries({ hidden: "secret", "may be read": file })) {
      const samples: Sample[] = [];
      while (samples.length < bench.runs)
        samples.push({ differs: await differenceOf(bench, endpoint, [key, "absent"]) });
      subjects.push({ name, samples });
    }
    return { subjects };
  },
};

/** By how many percent the median times of two resources differ. */
async function differenceOf(
  bench: Bench,
  endpoint: string,
  keys: readonly [string, string],
): Promise<number> {
  const count = readCount(bench);
  const times = keys.map((): number[] => []);
  for (let n = -count / 10; n < count; n += 1) {
    bench.signal.throwIfAborted();
    // the second of two profits from what the first left warm
    for (const at of Math.random() < 0.5 ? [0, 1] : [1, 0]) {
      const begun = performance.now();
      await read(endpoint, uriOf(keys[at]!));
      if (n >= 0) times[at]!.push(performance.now() - begun);
    }
  }
  const [one, other] = times.map((own) => quantile(ascending(own), 0.5));
  return Math.abs(one! / other! - 1) * 100;
}

async function read(endpoint: string, uri: string): Promise<void> {
  const response = await fetch(endpoint, {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": "2025-11-25",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri } }),
  });
  await response.arrayBuffer();
}

const nothing = "nothing";
const sdkServer = "@modelcontextprotocol/server";
const sdkNode = `${sdkServer}, /node`;
const sdkClient = "@modelcontextprotocol/client";
const server = "@sluice/server";
const node = "@sluice/transport-http/node";

/** What a process imports, and beside what: what its users import anyway. */
const imported: Readonly<
  Record<string, { readonly names: readonly string[]; readonly beside: string }>
> = {
  [nothing]: { names: [], beside: nothing },
  [sdkServer]: { names: [sdkServer], beside: nothing },
  [server]: { names: [server], beside: sdkServer },
  [sdkNode]: { names: [sdkServer, "@modelcontextprotocol/node"], beside: nothing },
  [node]: { names: [node], beside: sdkNode },
  [sdkClient]: { names: [sdkClient], beside: nothing },
  "@sluice/client": { names: ["@sluice/client"], beside: nothing },
  "@sluice/uploads": { names: ["@sluice/uploads"], beside: sdkNode },
};

/** What a process has more than the one beside it, round by round. */
const beyond =
  (key: string): Quantity =>
  (name, samples) => {
    const base = imported[name]!.beside;
    if (base === name) return undefined;
    const more = (samples.get(name) ?? []).map(
      (sample, round) => sample[key]! - (samples.get(base)?.[round]?.[key] ?? Number.NaN),
    );
    return summarise(more.filter(Number.isFinite));
  };
const importRuns = (bench: Bench): number => (bench.quick ? 5 : Math.max(25, bench.runs));

/** What the first import of a package costs. */
export const imports: TableSpec = {
  id: "imports",
  title: "Import the packages",
  how: (bench) =>
    `Each a process of its own that imports and ends, ${importRuns(bench)} times; \`beyond\` is what it takes more than the SDK's packages that it works with (the SDK's and \`@sluice/client\`: than an empty process).`,
  columns: [
    { key: "wall", title: "ms", digits: 0, is: each("wallMs") },
    { key: "cpu", title: "CPU ms", digits: 0, is: each("cpuMs") },
    { key: "beyondWall", title: "beyond, ms", digits: 0, is: beyond("wallMs") },
    { key: "beyondCpu", title: "beyond, CPU ms", digits: 0, bars: true, is: beyond("cpuMs") },
  ],
  promises: [
    {
      claim: `${server} beyond ${sdkServer}, CPU ms`,
      of: server,
      is: beyond("cpuMs"),
      atMost: 40,
    },
    { claim: `${node} beyond ${sdkNode}, CPU ms`, of: node, is: beyond("cpuMs"), atMost: 120 },
  ],
  async measure(bench) {
    const measured = await interleave(
      Object.entries(imported).map(([name, { names }]) => ({
        name,
        measure: () => importAll(names, bench.signal),
      })),
      { runs: importRuns(bench) },
    );
    return { subjects: [...measured].map(([name, samples]) => ({ name, samples })) };
  },
};

/** One process that imports, from its start to its end. */
async function importAll(names: readonly string[], signal: AbortSignal): Promise<Sample> {
  const program = [
    ...names.map((name) => `await import(${JSON.stringify(name)});`),
    "const { user, system } = process.cpuUsage();",
    "console.log((user + system) / 1_000);",
  ].join("\n");
  const args = ["--input-type=module", "--eval", program];
  const { stdout, seconds } = await runToEnd(process.execPath, args, { cwd: app, signal });
  return { wallMs: seconds * 1_000, cpuMs: Number(stdout) };
}

const downloads = 'export { createStreaming, streamResource } from "@sluice/client";';
const uploads = 'export { createFileSender } from "@sluice/client/send";';

/** What a page imports, by name of the row. */
const pages = {
  "Sluice, downloads": downloads,
  "Sluice, uploads": uploads,
  "Sluice, both": `${downloads}\n${uploads}`,
  "the SDK's client":
    'export { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";',
};

/** What a page loads. */
export const bundle: TableSpec = {
  id: "bundle",
  title: "Size of a browser bundle",
  how: "Vite in its production mode, with the names that a page uses and all that they import; gzip at level 9. Parts are loaded by a page that needs them, each by itself: SHA-256 where the server promised one, the meaning of refusals, and types of files without any take the most.",
  columns: [
    { key: "gzip", title: "at once, gzip KiB", digits: 1, bars: true, is: each("gzip") },
    { key: "plain", title: "at once, minified KiB", digits: 1, is: each("plain") },
    { key: "parts", title: "parts, gzip KiB", digits: 1, is: each("parts") },
  ],
  promises: [
    { claim: "downloads at once, gzip KiB", of: "Sluice, downloads", is: each("gzip"), atMost: 15 },
  ],
  async measure() {
    const subjects: MeasuredSubject[] = [];
    for (const [name, code] of Object.entries(pages)) {
      const { atOnce, later } = await bundled(code);
      const gzip = gzipBytes(atOnce) / KiB;
      const parts = later.reduce((sum, part) => sum + gzipBytes(part), 0) / KiB;
      subjects.push({ name, samples: [{ gzip, plain: atOnce.length / KiB, parts }] });
    }
    return { subjects };
  },
};

const gzipBytes = (code: string): number => gzipSync(code, { level: 9 }).byteLength;

/** What Vite makes of `program`: what a page loads at once, and each part that it may load later. */
async function bundled(
  program: string,
): Promise<{ readonly atOnce: string; readonly later: readonly string[] }> {
  const id = "virtual:page";
  const page: Plugin = {
    name: "page",
    resolveId: (source) => (source.endsWith(id) ? "\0page.js" : undefined),
    load: (source) => (source === "\0page.js" ? program : undefined),
  };
  const output = await build({
    root: app,
    configFile: false,
    logLevel: "silent",
    plugins: [page],
    build: {
      write: false,
      minify: true,
      lib: { entry: id, formats: ["es"], fileName: "page" },
      rollupOptions: { output: { minify: true } },
    },
  });
  const [made] = Array.isArray(output) ? output : [output];
  if (made === undefined || !("output" in made)) throw new Error("bench: vite made nothing");
  const chunks = made.output.filter((file) => file.type === "chunk");
  const first = chunks.filter(({ isEntry }) => isEntry);
  const names = new Set(first.flatMap(({ fileName, imports: needed }) => [fileName, ...needed]));
  const codesOf = (isFirst: boolean): string[] =>
    chunks.filter(({ fileName }) => names.has(fileName) === isFirst).map(({ code }) => code);
  return { atOnce: codesOf(true).join("\n"), later: codesOf(false) };
}
