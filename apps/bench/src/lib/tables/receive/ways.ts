import { KiB, MiB, type Bench } from "../../bench.ts";
import { observeClient } from "../../client-process.ts";
import { interleave } from "../../interleave.ts";
import { isInstalled } from "../../outside-client.ts";
import { nginx, startPeer } from "../../peers.ts";
import { createRunning } from "../../running.ts";
import {
  freePort,
  startNodeServer,
  startOutsideServer,
  type ServerProcess,
} from "../../server-process.ts";
import { startSluiceServer, uriOf } from "../../sluice.ts";
import { across, ratio, type Summary } from "../../statistics.ts";
import { rowsOf, type Experiment, type Table } from "../../table.ts";

const names = {
  sdk: "resources/read, official SDK",
  fastMcp: "resources/read, FastMCP",
  link: "a tool with a signed link, nginx, unverified",
  direct: "Sluice, direct answer",
  url: "Sluice, download URL",
};

/** What servers do today to give a file to a client, from the call to the last byte. */
export const ways: Experiment = {
  id: "ways",
  title: "Ways to give a client one file",
  async run(bench: Bench): Promise<Table> {
    const bytes = (bench.quick ? 8 : 32) * MiB;
    const file = await bench.file(bytes);
    const warmUp = await bench.file(4 * KiB);
    await using running = createRunning();
    const official = running.use(await startNodeServer("base64-server", [bench.files], bench));
    const direct = running.use(await startSluiceServer(bench));
    const linked = running.use(await startSluiceServer(bench, { delivery: "downloadUrl" }));
    const files = await startPeer(nginx, bench);
    const fastMcp = await startFastMcp(bench);
    if (fastMcp) running.use(fastMcp);
    const seen = (program: string, server: ServerProcess, args: readonly string[]) => async () => {
      const work = await observeClient(bench, program, args, server);
      if (work.bytes !== bytes) throw new Error(`bench: ${program}: ${work.bytes} bytes`);
      return { seconds: work.seconds, cpu: work.cpuSeconds + work.serverCpuSeconds };
    };
    const uris = [uriOf(file), uriOf(warmUp)];
    const subjects = [
      {
        name: names.sdk,
        measure: seen("base64-client", official, [endpointOf(official), ...uris]),
      },
      { name: names.direct, measure: seen("sluice-client", direct, [direct.endpoint, ...uris]) },
      { name: names.url, measure: seen("sluice-client", linked, [linked.endpoint, ...uris]) },
    ];
    const absent: string[] = [];
    if (fastMcp) {
      const endpoint = `http://127.0.0.1:${fastMcp.ready.port}/mcp`;
      const measure = seen("base64-client", fastMcp, [endpoint, ...uris]);
      subjects.push({ name: names.fastMcp, measure });
    } else absent.push(names.fastMcp);
    if (files) {
      running.use(files);
      const origin = `http://127.0.0.1:${files.ready.port}`;
      const links = running.use(await startNodeServer("link-server", [origin, "secret"], bench));
      const args = [endpointOf(links), file, warmUp];
      subjects.push({ name: names.link, measure: seen("link-client", links, args) });
    } else absent.push(names.link);
    const samples = await interleave(subjects, {
      runs: bench.runs,
      onRun: (name, _round, { seconds }) => bench.say(`  ${name}: ${seconds!.toFixed(3)} s`),
    });
    const faster = (name: string, than: string): Summary | undefined =>
      ratio(samples.get(than), samples.get(name), "seconds");
    return {
      how: `${bytes / MiB} MiB from a folder to a client that throws it away; the clock begins at the call, in a client that is connected and has got 4 KiB. The link of the tool carries a time and an HMAC that nginx does not check. CPU is that of client and MCP server.`,
      columns: [
        { key: "faster", title: "× the SDK", digits: 1, bars: true },
        { key: "seconds", title: "seconds", digits: 3 },
        { key: "cpu", title: "CPU s", digits: 3 },
      ],
      rows: rowsOf(Object.values(names), absent, (name) => ({
        faster: faster(name, names.sdk),
        seconds: across(samples.get(name), "seconds"),
        cpu: across(samples.get(name), "cpu"),
      })),
      reach: [
        {
          claim: "times as fast as FastMCP",
          atLeast: 10,
          got: faster(names.direct, names.fastMcp),
        },
        {
          claim: "direct answer of a signed link",
          atLeast: 1,
          got: faster(names.direct, names.link),
        },
        { claim: "download URL of a signed link", atLeast: 1, got: faster(names.url, names.link) },
      ],
    };
  },
};

const endpointOf = (server: ServerProcess): string => String(server.ready["endpoint"]);

/** FastMCP over the files of the bench; `undefined` where no Python has it. */
async function startFastMcp(bench: Bench): Promise<ServerProcess | undefined> {
  if (!(await isInstalled("fastmcp"))) return undefined;
  const port = await freePort();
  const program = new URL("../../../fastmcp_server.py", import.meta.url).pathname;
  const how = ["--transport", "http", "--port", `${port}`, "--log-level", "ERROR", "--no-banner"];
  const args = ["run", program, ...how, "--skip-env", "--", bench.files];
  return startOutsideServer("fastmcp", args, { port, signal: bench.signal });
}
