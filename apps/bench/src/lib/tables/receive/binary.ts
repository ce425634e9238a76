import { GiB, KiB, MiB, type Bench } from "../../bench.ts";
import { runToEnd } from "../../child.ts";
import { observeClient } from "../../client-process.ts";
import { interleave, type Subject } from "../../interleave.ts";
import { builtProgram, startNodeServer, type ServerProcess } from "../../server-process.ts";
import { uriOf } from "../../sluice.ts";
import { across, ratio } from "../../statistics.ts";
import type { Experiment, Reach, Row, Table } from "../../table.ts";

/** The Binary Transfer RFC beside base64 `resources/read`, and beside a raw pipe. */
export const binary: Experiment = {
  id: "binary",
  title: "Binary transfer beside base64",
  async run(bench: Bench): Promise<Table> {
    const rows: Row[] = [];
    const reach: Reach[] = [];
    for (const size of [1, 16, 100]) {
      const subject = (mode: Mode, what: string): Promise<Subject> =>
        stdioSubject(bench, mode, size * MiB, `stdio, ${what}, ${size} MiB`);
      const base64 = await subject("base64", "base64");
      const subjects = [base64, await subject("binary", "stream")];
      // it copies all that came before with each piece that comes: 100 MiB take minutes
      if (size <= 16) subjects.unshift(await subject("official", "base64, transport of the SDK"));
      const samples = await interleave(subjects, { runs: bench.runs });
      for (const { name } of subjects) {
        const own = samples.get(name);
        rows.push({
          name,
          cells: {
            seconds: across(own, "seconds"),
            faster: ratio(samples.get(base64.name), own, "seconds"),
          },
        });
      }
    }
    rows.push(...(await besideHttp(bench)));
    const bytes = bench.quick ? 256 * MiB : GiB;
    const raw = await stdioSubject(bench, "raw", bytes, "raw pipe, 1 GiB");
    const stream = await stdioSubject(bench, "binary", bytes, "stdio, stream, 1 GiB");
    const samples = await interleave([raw, stream], { runs: bench.runs });
    const ofPipe = ratio(samples.get(raw.name), samples.get(stream.name), "seconds");
    const slowest = across(samples.get(stream.name), "slowestCallMs");
    for (const { name } of [raw, stream])
      rows.push({
        name,
        cells: {
          seconds: across(samples.get(name), "seconds"),
          ofPipe: ratio(samples.get(raw.name), samples.get(name), "seconds"),
          ...(name === stream.name && { slowest }),
        },
      });
    reach.push(
      { claim: "stdio, stream: throughput of a raw pipe", atLeast: 0.8, got: ofPipe },
      { claim: "stdio, stream: slowest call in the middle, ms", atMost: 20, got: slowest },
    );
    return {
      how: "Two processes. Over HTTP base64 is server and client of the official SDK, over WebSocket both are over the transport of Sluice. Over stdio: two pipes. base64 is `resources/read` of the official SDK over the transport of Sluice and over its own; a raw pipe is one program that writes the file with two buffers and one that counts bytes. Page cache warm.",
      columns: [
        { key: "seconds", title: "seconds", digits: 3 },
        { key: "faster", title: "× base64", digits: 1, bars: true },
        { key: "ofPipe", title: "× raw pipe", digits: 2 },
        { key: "slowest", title: "slowest call ms", digits: 1 },
      ],
      rows,
      reach,
    };
  },
};

/** Multipart beside what the official SDK does over HTTP, frames beside base64 over the same WebSocket. */
async function besideHttp(bench: Bench): Promise<Row[]> {
  await using official = await startNodeServer("base64-server", [bench.files], bench);
  await using sluice = await startNodeServer("binary-server", [bench.files], bench);
  const warmUp = uriOf(await bench.file(64 * KiB));
  const rows: Row[] = [];
  for (const size of [1, 16, 100]) {
    const uri = uriOf(await bench.file(size * MiB));
    const subject = (
      what: string,
      server: ServerProcess,
      program: string,
      ...mode: readonly string[]
    ): Subject => ({
      name: `${what}, ${size} MiB`,
      async measure() {
        const args = [...mode, String(server.ready["endpoint"]), uri, warmUp];
        const seen = await observeClient(bench, program, args, server);
        if (seen.bytes !== size * MiB) throw new Error(`bench: ${what}: got ${seen.bytes} bytes`);
        bench.say(`  ${what}, ${size} MiB: ${seen.seconds.toFixed(3)} s`);
        return { seconds: seen.seconds };
      },
    });
    const pairs = [
      [
        subject("HTTP, base64, official SDK", official, "base64-client"),
        subject("HTTP, multipart", sluice, "binary-client", "multipart"),
      ],
      [
        subject("WebSocket, base64", sluice, "binary-client", "socket-base64"),
        subject("WebSocket, frames", sluice, "binary-client", "frames"),
      ],
    ] as const;
    const samples = await interleave(pairs.flat(), { runs: bench.runs });
    for (const pair of pairs)
      for (const { name } of pair)
        rows.push({
          name,
          cells: {
            seconds: across(samples.get(name), "seconds"),
            faster: ratio(samples.get(pair[0].name), samples.get(name), "seconds"),
          },
        });
  }
  return rows;
}

type Mode = "binary" | "base64" | "official" | "raw";

async function stdioSubject(
  bench: Bench,
  mode: Mode,
  bytes: number,
  name: string,
): Promise<Subject> {
  const file = bytes > 100 * MiB ? await bench.sparseFile(bytes) : await bench.file(bytes);
  const warmUp = await bench.file(64 * KiB);
  const args = [
    builtProgram("stdio-client"),
    mode,
    builtProgram("stdio-server"),
    bench.files,
    file,
    warmUp,
  ];
  return {
    name,
    async measure() {
      const { stdout } = await runToEnd(process.execPath, args, bench);
      const seen = JSON.parse(stdout) as { bytes: number; seconds: number; slowestCallMs: number };
      if (seen.bytes !== bytes) throw new Error(`bench: ${name}: got ${seen.bytes} bytes`);
      bench.say(`  ${name}: ${seen.seconds.toFixed(3)} s`);
      return { seconds: seen.seconds, slowestCallMs: seen.slowestCallMs };
    },
  };
}
