import { fileURLToPath } from "node:url";
import type { Bench } from "../../bench.ts";
import { runToEnd } from "../../child.ts";
import { interleave } from "../../interleave.ts";
import { across, summarise, type Sample, type Summary } from "../../statistics.ts";
import type { Experiment, Table } from "../../table.ts";

const nothing = "nothing";
const sdkServer = "@modelcontextprotocol/server";
const sdkNode = `${sdkServer}, /node`;
const sdkClient = "@modelcontextprotocol/client";
const server = "@sluice/server";
const node = "@sluice/transport-http/node";

/** What a process imports, and beside what: what its users import anyway. */
const subjects: Readonly<
  Record<string, { readonly imports: readonly string[]; readonly beside: string }>
> = {
  [nothing]: { imports: [], beside: nothing },
  [sdkServer]: { imports: [sdkServer], beside: nothing },
  [server]: { imports: [server], beside: sdkServer },
  [sdkNode]: { imports: [sdkServer, "@modelcontextprotocol/node"], beside: nothing },
  [node]: { imports: [node], beside: sdkNode },
  [sdkClient]: { imports: [sdkClient], beside: nothing },
  "@sluice/client": { imports: ["@sluice/client"], beside: nothing },
  "@sluice/uploads": { imports: ["@sluice/uploads"], beside: sdkNode },
};

/** What the first import of a package costs. */
export const imports: Experiment = {
  id: "imports",
  title: "Import the packages",
  async run(bench: Bench): Promise<Table> {
    const runs = bench.quick ? 5 : Math.max(25, bench.runs);
    const samples = await interleave(
      Object.entries(subjects).map(([name, subject]) => ({
        name,
        measure: () => start(subject.imports, bench.signal),
      })),
      { runs },
    );
    const rows = Object.entries(subjects).map(([name, { beside }]) => {
      const [own, baseline] = [samples.get(name), samples.get(beside)];
      const isBeside = beside !== name;
      return {
        name,
        cells: {
          wall: across(own, "wallMs"),
          cpu: across(own, "cpuMs"),
          beyondWall: isBeside ? difference(own, baseline, "wallMs") : undefined,
          beyondCpu: isBeside ? difference(own, baseline, "cpuMs") : undefined,
        },
      };
    });
    const beyond = (name: string): Summary | undefined =>
      rows.find((row) => row.name === name)?.cells.beyondCpu;
    return {
      how: `Each a process of its own that imports and ends, ${runs} times; \`beyond\` is what it takes more than the SDK's packages that it works with (the SDK's and \`@sluice/client\`: than an empty process).`,
      columns: [
        { key: "wall", title: "ms", digits: 0 },
        { key: "cpu", title: "CPU ms", digits: 0 },
        { key: "beyondWall", title: "beyond, ms", digits: 0 },
        { key: "beyondCpu", title: "beyond, CPU ms", digits: 0, bars: true },
      ],
      rows,
      reach: [
        { claim: `${server} beyond ${sdkServer}, CPU ms`, atMost: 40, got: beyond(server) },
        { claim: `${node} beyond ${sdkNode}, CPU ms`, atMost: 120, got: beyond(node) },
      ],
    };
  },
};

const app = fileURLToPath(new URL("../../../../", import.meta.url));

/** One process that imports, from its start to its end. */
async function start(names: readonly string[], signal: AbortSignal): Promise<Sample> {
  const program = [
    ...names.map((name) => `await import(${JSON.stringify(name)});`),
    "const { user, system } = process.cpuUsage();",
    "console.log((user + system) / 1_000);",
  ].join("\n");
  const args = ["--input-type=module", "--eval", program];
  const { stdout, seconds } = await runToEnd(process.execPath, args, { cwd: app, signal });
  return { wallMs: seconds * 1_000, cpuMs: Number(stdout) };
}

/** What `samples` has more than `baseline` of one quantity, round by round. */
function difference(
  samples: readonly Sample[] | undefined,
  baseline: readonly Sample[] | undefined,
  key: string,
): Summary | undefined {
  const more = (samples ?? []).map(
    (sample, round) => sample[key]! - (baseline?.[round]?.[key] ?? NaN),
  );
  return summarise(more.filter(Number.isFinite));
}
