import { join } from "node:path";
import { GiB, MiB, type Bench } from "../../bench.ts";
import { runToEnd } from "../../child.ts";
import { interleave, type Subject } from "../../interleave.ts";
import { startNodeServer, type ServerProcess } from "../../server-process.ts";
import { across, ratio } from "../../statistics.ts";
import type { Experiment, Table } from "../../table.ts";

/** Receiving one file to disk, raw and as a form, beside what servers use for it. */
export const upload: Experiment = {
  id: "upload",
  title: "Receiving a 1 GiB upload to disk",
  async run(bench: Bench): Promise<Table> {
    const bytes = bench.quick ? 256 * MiB : GiB;
    const file = join(bench.files, await bench.file(bytes));
    await using server = await startNodeServer(
      "upload-server",
      [await bench.scratch("received")],
      bench,
    );
    const subjects = ways.map((way) => subjectOf(bench, server, { ...way, file }));
    const samples = await interleave(subjects, { runs: bench.runs });
    const of = (name: string) => samples.get(name);
    const best = ratio(of("pipeline(req, createWriteStream)"), of("Sluice, raw"), "seconds");
    const form = ratio(of("pipeline(req, createWriteStream)"), of("Sluice, form"), "seconds");
    return {
      how: "curl sends to one Node process per table, each way in turn, on one disk; the file sent is in the page cache. Sluice counts, hashes, looks at the type and flushes to disk before it answers; of the others only the two lines with fsync flush, and one hashes.",
      columns: [
        { key: "seconds", title: "seconds", digits: 3 },
        { key: "cpu", title: "CPU s of the server", digits: 2 },
        { key: "ofPipeline", title: "× pipeline", digits: 2, bars: true },
        { key: "memory", title: "MiB over idle", digits: 0 },
      ],
      rows: subjects.map(({ name }) => ({
        name,
        cells: {
          seconds: across(of(name), "seconds"),
          cpu: across(of(name), "cpu"),
          ofPipeline: ratio(of("pipeline(req, createWriteStream)"), of(name), "seconds"),
          memory: across(of(name), "memory"),
        },
      })),
      reach: [
        { claim: "raw, beside pipeline(req, createWriteStream)", atLeast: 1, got: best },
        { claim: "form, beside pipeline(req, createWriteStream)", atLeast: 0.85, got: form },
        {
          claim: "form, beside busboy to disk",
          atLeast: 1.1,
          got: ratio(of("busboy"), of("Sluice, form"), "seconds"),
          floor: {
            got: ratio(of("busboy"), of("pipeline(req, createWriteStream)"), "seconds"),
            profile: unparsed,
          },
        },
        {
          claim: "form, beside multer to disk",
          atLeast: 1.1,
          got: ratio(of("multer"), of("Sluice, form"), "seconds"),
          floor: {
            got: ratio(of("multer"), of("pipeline(req, createWriteStream)"), "seconds"),
            profile: unparsed,
          },
        },
        {
          claim: "raw, MiB of memory over idle",
          atMost: 48,
          got: across(of("Sluice, raw"), "memory"),
        },
      ],
    };
  },
};

const unparsed =
  "The least program is the bare pipeline, which reads no form, hashes nothing and does not flush.";

interface Way {
  readonly name: string;
  readonly path: string;
  readonly isForm?: true;
}

const ways: readonly Way[] = [
  { name: "pipeline(req, createWriteStream)", path: "pipeline" },
  { name: "pipeline and fsync", path: "pipeline-fsync" },
  { name: "Sluice, raw", path: "slot" },
  { name: "Sluice, form", path: "slot", isForm: true },
  { name: "busboy", path: "busboy", isForm: true },
  { name: "busboy, SHA-256 and fsync", path: "busboy-sha256", isForm: true },
  { name: "@fastify/busboy", path: "fastify-busboy", isForm: true },
  { name: "multer", path: "multer", isForm: true },
];

function subjectOf(
  bench: Bench,
  server: ServerProcess,
  { name, path, isForm, file }: Way & { readonly file: string },
): Subject {
  const origin = `http://127.0.0.1:${server.ready.port}`;
  return {
    name,
    async measure() {
      const url = path === "slot" ? await slotUrl(origin) : `${origin}/${path}`;
      const idle = server.rssBytes();
      server.resetPeak();
      const cpuBefore = server.cpuSeconds();
      const what = isForm ? ["-F", `file=@${file};type=application/octet-stream`] : ["-T", file];
      const { seconds } = await runToEnd(
        "curl",
        [
          "--silent",
          "--show-error",
          "--fail",
          "--noproxy",
          "*",
          "-o",
          "/dev/null",
          "-H",
          "Expect:",
          ...what,
          url,
        ],
        bench,
      );
      const cpu = server.cpuSeconds() - cpuBefore;
      bench.say(`  ${name}: ${seconds.toFixed(3)} s`);
      return { seconds, cpu, memory: Math.max(0, server.peakBytes() - idle) / MiB };
    },
  };
}

async function slotUrl(origin: string): Promise<string> {
  const answer = await fetch(`${origin}/slot`);
  return answer.text();
}
