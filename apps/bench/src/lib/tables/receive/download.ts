import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { GiB, KiB, MiB, type Bench } from "../../bench.ts";
import { runToEnd } from "../../child.ts";
import { observeClient } from "../../client-process.ts";
import { interleave, type Subject } from "../../interleave.ts";
import { startNginxProxy } from "../../nginx.ts";
import { curl, isInstalled } from "../../outside-client.ts";
import { freePort } from "../../server-process.ts";
import { downloadUrlOf, startSluiceServer, uriOf } from "../../sluice.ts";
import { across, ratio, type Summary } from "../../statistics.ts";
import { rowsOf, type Experiment, type Reach, type Table } from "../../table.ts";

const names = {
  curl: "curl, unverified",
  curlSum: "curl, then sha256sum",
  tee: "curl, tee and sha256sum at once",
  openssl: "curl, tee and openssl dgst -sha256 at once",
  bare: "bare Node program: socket, file and SHA-256",
  aria2: "aria2 -x8, unverified",
  single: "Sluice saveTo, verified",
  ranges: "Sluice saveTo, 8 ranges, verified",
};

const hashing: readonly string[] = [names.curlSum, names.tee, names.openssl, names.bare];

type Of = (name: string, other: string) => Summary | undefined;

/** One large file to the disk. */
export const download: Experiment = {
  id: "download",
  title: "Downloading 1 GiB to disk",
  run: (bench) =>
    save(bench, {
      bytes: bench.quick ? 256 * MiB : GiB,
      how: "Every client takes the file from the same Sluice server. curl = 1.00. Sluice counts, hashes and publishes atomically; the others do not. The lines with tee are the least that outside programs need for a file and its SHA-256 (sha256sum without, openssl with the processor's instructions for it). The bare Node program only moves, writes and hashes: it is the floor for a client in Node. On two cores the server and curl take about 0.6 and 0.75 CPU seconds a GiB, and SHA-256 alone takes 0.76 more: together about 1.05 s on both cores, so a client that hashes cannot be as fast as curl there.",
      reach: (of) => [
        {
          claim: "saveTo of curl",
          atLeast: 1,
          got: of(names.single, names.curl),
          floor: {
            got: of(names.bare, names.curl),
            profile:
              "Curl does not hash. SHA-256 alone takes as long as all that curl does, and the server needs one of the two cores meanwhile.",
          },
        },
        { claim: "saveTo of curl + sha256sum", atLeast: 1.5, got: of(names.single, names.curlSum) },
        {
          claim: "saveTo of curl, tee and sha256sum at once",
          atLeast: 1,
          got: of(names.single, names.tee),
        },
        {
          claim: "saveTo of curl, tee and openssl at once",
          atLeast: 1,
          got: of(names.single, names.openssl),
        },
        {
          claim: "8 ranges of aria2 -x8",
          atLeast: 1.2,
          got: of(names.ranges, names.aria2),
          floor: {
            got: of(names.bare, names.aria2),
            profile:
              "Where one connection fills the disk, Sluice opens no other. aria2 hashes nothing and leaves the disk to the system.",
          },
        },
      ],
    }),
};

/** The same where each connection gets little. */
export const downloadThrottled: Experiment = {
  id: "download-throttled",
  title: "Downloading at 20 MB/s a connection",
  run: (bench) =>
    save(bench, {
      bytes: bench.quick ? 64 * MiB : 256 * MiB,
      limitRate: "20m",
      how: "As above through an nginx that gives each connection 20 MB/s. curl = 1.00.",
      reach: (of) => [
        { claim: "8 ranges of aria2 -x8", atLeast: 1, got: of(names.ranges, names.aria2) },
      ],
    }),
};

interface SaveOptions {
  readonly bytes: number;
  readonly limitRate?: string;
  readonly how: string;
  readonly reach: (of: Of) => readonly Reach[];
}

async function save(bench: Bench, options: SaveOptions): Promise<Table> {
  const { bytes, limitRate } = options;
  const absent = [
    ...((await isInstalled("aria2c")) ? [] : [names.aria2]),
    ...((await isInstalled("openssl")) ? [] : [names.openssl]),
  ];
  // what hashing costs shows where the network is no limit
  const all = Object.values(names).filter((name) => !limitRate || !hashing.includes(name));
  if (limitRate !== undefined && !(await isInstalled("nginx"))) {
    const rows = rowsOf(all, all, () => ({}));
    return { how: `${options.how} nginx is absent here.`, columns: [], rows, reach: [] };
  }
  const file = await bench.file(bytes);
  const warmUp = uriOf(await bench.file(4 * KiB));
  await using server = await startServer(bench, limitRate);
  const url = await downloadUrlOf(server.endpoint, uriOf(file));
  const directory = await bench.scratch("downloads");
  const target = join(directory, "target");
  const timed = (name: string, measure: () => Promise<number>): Subject => ({
    name,
    async measure() {
      const seconds = await measure();
      await rm(target, { force: true });
      bench.say(`  ${name}: ${seconds.toFixed(2)} s`);
      return { seconds, rate: 1 / seconds };
    },
  });
  const saveTo = (ranges: number) => async (): Promise<number> => {
    const args = [server.endpoint, uriOf(file), warmUp, "", target, String(ranges)];
    const seen = await observeClient(bench, "sluice-client", args, server);
    if (seen.bytes !== bytes) throw new Error(`bench: saved ${seen.bytes} of ${bytes} bytes`);
    return seen.seconds;
  };
  const subjects: readonly Subject[] = [
    timed(names.curl, () => curl(url, bytes, { signal: bench.signal, to: target })),
    timed(names.curlSum, async () => {
      const seconds = await curl(url, bytes, { signal: bench.signal, to: target });
      return seconds + (await runToEnd("sha256sum", [target], bench)).seconds;
    }),
    timed(names.tee, () => teeAndSum(bench, url, { target, bytes, sum: "sha256sum" })),
    timed(names.openssl, () =>
      teeAndSum(bench, url, { target, bytes, sum: "openssl dgst -sha256" }),
    ),
    timed(names.bare, async () => {
      const seen = await observeClient(bench, "bare-save", [url, target], server);
      if (seen.bytes !== bytes) throw new Error(`bench: saved ${seen.bytes} of ${bytes} bytes`);
      return seen.seconds;
    }),
    timed(names.aria2, () => aria2(bench, url, directory)),
    timed(names.single, saveTo(1)),
    timed(names.ranges, saveTo(8)),
  ];
  const samples = await interleave(
    subjects.filter(({ name }) => all.includes(name) && !absent.includes(name)),
    bench,
  );
  const of: Of = (name, other) => ratio(samples.get(name), samples.get(other), "rate");
  return {
    how: options.how,
    columns: [
      { key: "rate", title: "rate", digits: 2, bars: true },
      { key: "seconds", title: "seconds", digits: 2 },
    ],
    rows: rowsOf(all, absent, (name) => ({
      rate: of(name, names.curl),
      seconds: across(samples.get(name), "seconds"),
    })),
    reach: options.reach(of),
  };
}

/** A Sluice server, behind a slow proxy when there is a limit. */
async function startServer(
  bench: Bench,
  limitRate: string | undefined,
): Promise<Awaited<ReturnType<typeof startSluiceServer>>> {
  if (limitRate === undefined) return startSluiceServer(bench, { delivery: "downloadUrl" });
  const publicPort = await freePort();
  const server = await startSluiceServer(bench, { delivery: "downloadUrl", publicPort });
  const proxy = await startNginxProxy({
    directory: await bench.scratch("proxy"),
    port: publicPort,
    to: server.ready.port,
    limitRate,
    signal: bench.signal,
  });
  const dispose = async (): Promise<void> => {
    await proxy[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  };
  return { ...server, [Symbol.asyncDispose]: dispose };
}

/** One program takes the bytes while two others write and hash them. */
async function teeAndSum(
  bench: Bench,
  url: string,
  options: { readonly target: string; readonly bytes: number; readonly sum: string },
): Promise<number> {
  const { target, bytes, sum } = options;
  const line = `curl --silent --show-error --fail --noproxy '*' "$1" | tee "$2" | ${sum}`;
  const { seconds } = await runToEnd("sh", ["-c", line, "sh", url, target], bench);
  const { size } = await stat(target);
  if (size !== bytes) throw new Error(`bench: tee wrote ${size} of ${bytes} bytes`);
  return seconds;
}

async function aria2(bench: Bench, url: string, directory: string): Promise<number> {
  const flags =
    "--max-connection-per-server=8 --split=8 --min-split-size=1M --file-allocation=none";
  const quiet = "--quiet --allow-overwrite=true --no-conf --no-proxy=*";
  const { seconds } = await runToEnd(
    "aria2c",
    [...`${flags} ${quiet}`.split(" "), `--dir=${directory}`, "--out=target", url],
    bench,
  );
  return seconds;
}
