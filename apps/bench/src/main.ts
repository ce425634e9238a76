/** Measures Sluice beside its peers: `npm run bench -- --help`. */
import { setMaxListeners } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { createBench } from "./lib/bench.ts";
import { withCapacity } from "./lib/capacity.ts";
import { runToEnd } from "./lib/processes.ts";
import { formatTable, introduce, writeFigures, writePage } from "./lib/report.ts";
import { runTable, type Table } from "./lib/table.ts";
import { specs } from "./tables/specs.ts";

const help = `usage: npm run bench -- [options]

  --only ID[,ID]   only these tables: ${specs.map(({ id }) => id).join(", ")}
  --runs N         runs of each subject, interleaved (default 5)
  --quick          small files and short runs: a look, not figures to quote
  --peers          leave Sluice out of the tables of servers
  --out DIRECTORY  where the figures and drawings go (default apps/bench/results)
  --publish        write docs/reference/performance.md and the figures of capacity.md from this run
  --built          measure what is in dist, do not build first
  --minutes N      give up after this long (default 180)
`;

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    runs: { type: "string", default: "5" },
    quick: { type: "boolean", default: false },
    out: { type: "string", default: new URL("../results", import.meta.url).pathname },
    peers: { type: "boolean", default: false },
    publish: { type: "boolean", default: false },
    built: { type: "boolean", default: false },
    minutes: { type: "string", default: "180" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(help);
  process.exit(0);
}

const wanted = values.only?.split(",");
const unknown = wanted?.filter((id) => !specs.some((spec) => spec.id === id));
const runs = Number(values.runs);
const minutes = Number(values.minutes);
if (unknown?.length || !(runs >= 1) || !(minutes > 0)) {
  console.error(help);
  process.exit(2);
}

const stop = new AbortController();
for (const name of ["SIGINT", "SIGTERM"] as const)
  process.once(name, () => stop.abort(new Error(`stopped by ${name}`)));
const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(minutes * 60_000)]);

// every child listens to it
setMaxListeners(0, signal);

const project = new URL("../tsconfig.build.json", import.meta.url).pathname;
const bundler = new URL("../../../tools/bundle.mjs", import.meta.url).pathname;
if (!values.built) {
  await runToEnd("tsc", ["-b", project], { signal });
  await runToEnd(process.execPath, [bundler], { signal });
}

const tables: Table[] = [];
const bench = await createBench({ runs, quick: values.quick, peersOnly: values.peers, signal });
try {
  for (const spec of specs) {
    if (wanted && !wanted.includes(spec.id)) continue;
    bench.say(`${spec.id}: ${spec.title}`);
    try {
      const table = await runTable(spec, bench);
      tables.push(table);
      console.log(`${formatTable(table)}\n`);
    } catch (error) {
      signal.throwIfAborted();
      // one table less is no reason to lose the others
      console.error(error);
      process.exitCode = 1;
    }
  }
} finally {
  await bench[Symbol.asyncDispose]();
}

const out = resolve(values.out);
const text = introduce(tables, runs);
await mkdir(out, { recursive: true });
await writeFigures(tables, join(out, "results.json"));
const drawings = join(out, "drawings");
await writePage(tables, join(out, "results.md"), {
  drawings,
  link: "drawings",
  introduction: text,
});
if (values.publish) {
  const docs = new URL("../../../docs/reference/", import.meta.url).pathname;
  const page = join(docs, "performance.md");
  await writePage(tables, page, {
    drawings: join(docs, "performance"),
    link: "performance",
    introduction: text,
  });
  const written = [page];
  if (tables.some(({ id }) => id === "scale")) {
    const capacity = join(docs, "../guides/deploy/capacity.md");
    await writeFile(capacity, withCapacity(await readFile(capacity, "utf8"), tables));
    written.push(capacity);
  }
  await runToEnd("oxfmt", written, { signal });
}
