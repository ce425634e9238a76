/** Measures Sluice beside its peers: `npm run bench -- --help`. */
import { setMaxListeners } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { createBench } from "./lib/bench.ts";
import { withCapacity } from "./lib/capacity.ts";
import { runToEnd } from "./lib/child.ts";
import { introduction } from "./lib/introduction.ts";
import { formatTable, writeFigures, writePage, type Finding } from "./lib/report.ts";
import { experiments } from "./lib/experiments.ts";

const help = `usage: npm run bench -- [options]

  --only ID[,ID]   only these tables: ${experiments.map(({ id }) => id).join(", ")}
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
const unknown = wanted?.filter((id) => !experiments.some((experiment) => experiment.id === id));
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

const findings: Finding[] = [];
const bench = await createBench({ runs, quick: values.quick, peersOnly: values.peers, signal });
try {
  for (const experiment of experiments) {
    if (wanted && !wanted.includes(experiment.id)) continue;
    bench.say(`${experiment.id}: ${experiment.title}`);
    try {
      const finding = { experiment, table: await experiment.run(bench) };
      findings.push(finding);
      console.log(`${formatTable(finding)}\n`);
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
const text = introduction(findings, runs);
await mkdir(out, { recursive: true });
await writeFigures(findings, join(out, "results.json"));
const drawings = join(out, "drawings");
await writePage(findings, join(out, "results.md"), {
  drawings,
  link: "drawings",
  introduction: text,
});
if (values.publish) {
  const docs = new URL("../../../docs/reference/", import.meta.url).pathname;
  const page = join(docs, "performance.md");
  await writePage(findings, page, {
    drawings: join(docs, "performance"),
    link: "performance",
    introduction: text,
  });
  const written = [page];
  if (findings.some(({ experiment }) => experiment.id === "scale")) {
    const capacity = join(docs, "../guides/deploy/capacity.md");
    await writeFile(capacity, withCapacity(await readFile(capacity, "utf8"), findings));
    written.push(capacity);
  }
  await runToEnd("oxfmt", written, { signal });
}
