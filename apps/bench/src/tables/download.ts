/** Tables of clients that bring files to the disk. */
import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { GiB, KiB, MiB, type Bench } from "../lib/bench.ts";
import { curl, isInstalled } from "../lib/load.ts";
import { nginx, startPeer, startSlowProxy } from "../lib/peers.ts";
import { observeClient, runToEnd, startNodeServer, type ServerProcess } from "../lib/processes.ts";
import { freePort } from "../lib/program.ts";
import { downloadUrlOf, startSluiceServer, uriOf, type SluiceServer } from "../lib/sluice.ts";
import {
  beside,
  each,
  takeTurns,
  type MeasuredSubject,
  type Promised,
  type Quantity,
  type Subject,
  type TableSpec,
  type Running,
} from "../lib/table.ts";

const rateOf = (base: string): Quantity => beside(base, "rate");
const columnsOf = (base: string): TableSpec["columns"] => [
  { key: "rate", title: "rate", digits: 2, bars: true, is: rateOf(base) },
  { key: "seconds", title: "seconds", digits: 2, is: each("seconds") },
];
const absentWithout = async (program: string): Promise<string | undefined> =>
  (await isInstalled(program)) ? undefined : "not installed";

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
/** What hashing costs shows where the network is no limit. */
const hashing: readonly string[] = [names.curlSum, names.tee, names.openssl, names.bare];

/** One large file to the disk. */
export const download: TableSpec = {
  id: "download",
  title: "Downloading 1 GiB to disk",
  how: "Every client takes the file from the same Sluice server. curl = 1.00. Sluice counts, hashes and publishes atomically; the others do not. The lines with tee are the least that outside programs need for a file and its SHA-256 (sha256sum without, openssl with the processor's instructions for it). The bare Node program only moves, writes and hashes: it is the floor for a client in Node. On two cores the server and curl take about 0.6 and 0.75 CPU seconds a GiB, and SHA-256 alone takes 0.76 more: together about 1.05 s on both cores, so a client that hashes cannot be as fast as curl there.",
  columns: columnsOf(names.curl),
  promises: [
    {
      claim: "saveTo of curl",
      of: names.single,
      is: rateOf(names.curl),
      atLeast: 1,
      floor: {
        of: names.bare,
        profile:
          "Curl does not hash. SHA-256 alone takes as long as all that curl does, and the server needs one of the two cores meanwhile.",
      },
    },
    {
      claim: "saveTo of curl + sha256sum",
      of: names.single,
      is: rateOf(names.curlSum),
      atLeast: 1.5,
    },
    {
      claim: "saveTo of curl, tee and sha256sum at once",
      of: names.single,
      is: rateOf(names.tee),
      atLeast: 1,
    },
    {
      claim: "saveTo of curl, tee and openssl at once",
      of: names.single,
      is: rateOf(names.openssl),
      atLeast: 1,
    },
    {
      claim: "8 ranges of aria2 -x8",
      of: names.ranges,
      is: rateOf(names.aria2),
      atLeast: 1.2,
      floor: {
        of: names.bare,
        profile:
          "Where one connection fills the disk, Sluice opens no other. aria2 hashes nothing and leaves the disk to the system.",
      },
    },
  ],
  async measure(bench, running) {
    const server = running.use(await startSluiceServer(bench, { delivery: "downloadUrl" }));
    const bytes = bench.quick ? 256 * MiB : GiB;
    return { subjects: await takeTurns(bench, await savers(bench, server, bytes)) };
  },
};

/** The same where each connection gets little. */
export const downloadThrottled: TableSpec = {
  id: "download-throttled",
  title: "Downloading at 20 MB/s a connection",
  how: "As above through an nginx that gives each connection 20 MB/s. curl = 1.00.",
  columns: columnsOf(names.curl),
  promises: [
    { claim: "8 ranges of aria2 -x8", of: names.ranges, is: rateOf(names.aria2), atLeast: 1 },
  ],
  async measure(bench, running) {
    if (!(await isInstalled("nginx"))) return { subjects: [] };
    const [publicPort, port] = [await freePort(), await freePort()];
    const slow = { port: publicPort, to: port, limitRate: "20m" };
    running.use(await startSlowProxy(bench, slow));
    const options = { delivery: "downloadUrl", port, publicPort } as const;
    const server = running.use(await startSluiceServer(bench, options));
    const subjects = await savers(bench, server, (bench.quick ? 64 : 256) * MiB);
    return {
      subjects: await takeTurns(
        bench,
        subjects.filter(({ name }) => !hashing.includes(name)),
      ),
    };
  },
};

/** Every program that saves one file of a server. */
async function savers(
  bench: Bench,
  server: SluiceServer,
  bytes: number,
): Promise<readonly Subject[]> {
  const uri = uriOf(await bench.file(bytes));
  const warmUp = uriOf(await bench.file(4 * KiB));
  const url = await downloadUrlOf(server.endpoint, uri);
  const directory = await bench.scratch("downloads");
  const target = join(directory, "target");
  const subject = (name: string, save: () => Promise<number>, absent?: string): Subject => ({
    name,
    absent,
    async measure() {
      const seconds = await save();
      const { size } = await stat(target);
      if (size !== bytes) throw new Error(`bench: ${name}: ${size} of ${bytes} bytes`);
      await rm(target);
      return { seconds, rate: 1 / seconds };
    },
  });
  const bare = (): Promise<number> => curl(url, bytes, { signal: bench.signal, to: target });
  const run = async (command: string, ...args: readonly string[]): Promise<number> =>
    (await runToEnd(command, args, bench)).seconds;
  // one program takes the bytes while two others write and hash them
  const tee = (sum: string) => (): Promise<number> => {
    const line = `curl --silent --show-error --fail --noproxy '*' "$1" | tee "$2" | ${sum}`;
    return run("sh", "-c", line, "sh", url, target);
  };
  const seen = async (program: string, ...args: readonly string[]): Promise<number> =>
    (await observeClient(bench, program, args, server)).seconds;
  const saveTo = (ranges: number) => (): Promise<number> =>
    seen("mcp-client", "sluice", server.endpoint, uri, warmUp, "", target, `${ranges}`);
  const aria2Flags =
    "--max-connection-per-server=8 --split=8 --min-split-size=1M --file-allocation=none --quiet --allow-overwrite=true --no-conf --no-proxy=*".split(
      " ",
    );
  const aria2 = (): Promise<number> =>
    run("aria2c", ...aria2Flags, `--dir=${directory}`, "--out=target", url);
  return [
    subject(names.curl, bare),
    subject(names.curlSum, async () => (await bare()) + (await run("sha256sum", target))),
    subject(names.tee, tee("sha256sum")),
    subject(names.openssl, tee("openssl dgst -sha256"), await absentWithout("openssl")),
    subject(names.bare, () => seen("bare-client", "save", url, target)),
    subject(names.aria2, aria2, await absentWithout("aria2c")),
    subject(names.single, saveTo(1)),
    subject(names.ranges, saveTo(8)),
  ];
}

const others = {
  curl: "curl, unverified",
  copyUrl: "rclone copyurl, unverified",
  remote: "rclone copy from an http remote",
  hub: "huggingface.js, unverified",
  hf: "hf download",
  saveTo: "Sluice saveTo, verified",
};
const rclone = ["--config", "/dev/null", "--quiet"];

/** Other programs that bring one large file to the disk. */
export const programs: TableSpec = {
  id: "programs",
  title: "Downloading 1 GiB with other programs",
  how: "nginx serves the file to curl and rclone, and to the clients of the hub behind a small stand-in that answers its resolve URL with a redirect, without Xet. Sluice's client takes it from Sluice. Programs are started anew, except for the clients of Node, whose clock begins at the call; hf starts Python. curl = 1.00.",
  columns: columnsOf(others.curl),
  promises: [others.copyUrl, others.remote, others.hub, others.hf].map((name) => ({
    claim: `saveTo of ${name}`,
    of: others.saveTo,
    is: rateOf(name),
    atLeast: 1,
    floor: {
      profile:
        "rclone and curl hash nothing while the bytes come; the floor of a client in Node that does stands in the table of one download.",
    },
  })),
  async measure(bench, running) {
    const bytes = bench.quick ? 256 * MiB : GiB;
    const file = await bench.file(bytes);
    const warmUp = uriOf(await bench.file(4 * KiB));
    const files = await startPeer(nginx, bench);
    if (files) running.use(files);
    const origin = `http://127.0.0.1:${files?.ready.port}`;
    // another host than that of the hub: hf takes a redirect on the same host for one within the hub
    const elsewhere = origin.replace("127.0.0.1", "localhost");
    const args = ["hub", elsewhere, file, `${bytes}`];
    const hub = running.use(await startNodeServer("stand-in", args, bench));
    const hubUrl = `http://127.0.0.1:${hub.ready.port}`;
    const sluice = running.use(await startSluiceServer(bench, { delivery: "downloadUrl" }));
    const directory = await bench.scratch("programs");
    const target = join(directory, file);
    const withoutNginx = files ? undefined : "not installed";
    const withoutRclone = withoutNginx ?? (await absentWithout("rclone"));
    const run = async (command: string, ...rest: readonly string[]): Promise<number> =>
      (await runToEnd(command, rest, bench)).seconds;
    const seen = async (server: ServerProcess, program: string, ...rest: readonly string[]) =>
      (await observeClient(bench, program, rest, server)).seconds;
    const subject = (name: string, absent: string | undefined, save: () => Promise<number>) => ({
      name,
      absent,
      async measure() {
        const seconds = await save();
        const { size } = await stat(target);
        if (size !== bytes) throw new Error(`bench: ${name}: ${size} of ${bytes} bytes`);
        await rm(directory, { recursive: true });
        await mkdir(directory);
        return { seconds, rate: 1 / seconds };
      },
    });
    return {
      subjects: await takeTurns(bench, [
        subject(others.curl, withoutNginx, () =>
          curl(`${origin}/${file}`, bytes, { signal: bench.signal, to: target }),
        ),
        subject(others.copyUrl, withoutRclone, () =>
          run("rclone", ...rclone, "copyurl", `${origin}/${file}`, target),
        ),
        subject(others.remote, withoutRclone, () =>
          run("rclone", ...rclone, "copyto", "--http-url", origin, `:http:${file}`, target),
        ),
        subject(others.hub, withoutNginx, () =>
          seen(hub, "bare-client", "hub", hubUrl, file, target),
        ),
        subject(others.hf, withoutNginx ?? (await absentWithout("hf")), () => {
          const place = [`HF_ENDPOINT=${hubUrl}`, `HF_HOME=${directory}`];
          const quiet = ["HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1"];
          const what = ["download", "bench/model", file, "--local-dir", directory];
          return run("env", ...place, ...quiet, "hf", ...what);
        }),
        subject(others.saveTo, undefined, () =>
          seen(
            sluice,
            "mcp-client",
            "sluice",
            sluice.endpoint,
            uriOf(file),
            warmUp,
            "",
            target,
            "1",
          ),
        ),
      ]),
    };
  },
};

const many = {
  aria2: "aria2 -i list -j16, unverified",
  curl: "curl -K list, 16 at once, unverified",
  bare: "bare Node, 16 at once, hashed",
  synced: "bare Node, hashed, synced to disk",
  called: "bare Node with the SDK's call for each file, hashed, synced",
  saveTo: "Sluice saveTo, 16 at once, verified",
  command: "sluice get -j16, verified",
};
const filesOf = (bench: Bench): number => (bench.quick ? 400 : 10_000);
const filesOfFolder = 500;
/** As many files of each order of size, from 8 KiB to 1 MiB. */
const sizeOf = (n: number): number => Math.round(8 * KiB * (MiB / (8 * KiB)) ** ((n * 0.618) % 1));
const bytesOf = (bench: Bench): number =>
  Array.from({ length: filesOf(bench) }, (_, n) => sizeOf(n)).reduce((sum, size) => sum + size);

/** Many files to the disk. */
export const tree: TableSpec = {
  id: "tree",
  title: "Downloading a folder of small files",
  how: (bench) =>
    `${filesOf(bench)} files of 8 KiB to 1 MiB, ${(bytesOf(bench) / MiB).toFixed(0)} MiB in all, from Sluice. aria2, curl and the bare program have a list of download URLs that was made before the clock starts; that program hashes each file, gives it its name by a rename, and checks nothing. Sluice's client lists and asks for each file, hashes it, and has it on the disk before it gives it its name, as the second and the third bare program do; the others leave that to the system. The third bare program lists and asks through the SDK's client, too. The command has all URIs as arguments and puts the files into one folder. aria2 = 1.00.`,
  columns: [
    ...columnsOf(many.aria2),
    { key: "files", title: "files/s", digits: 0, is: each("filesPerSecond") },
  ],
  promises: [
    {
      claim: "saveTo of aria2 with a list",
      of: many.saveTo,
      is: rateOf(many.aria2),
      atLeast: 1.5,
      floor: {
        of: many.called,
        profile:
          "Half of the client's processor time for a file is a call through the SDK, and a third is the system's work at the disk and the sockets.",
      },
    },
  ] satisfies readonly Promised[],
  measure: async (bench, running) => ({ subjects: await saveTrees(bench, running) }),
};

async function saveTrees(bench: Bench, running: Running): Promise<readonly MeasuredSubject[]> {
  const { root, files } = await writeTree(bench);
  const direct = running.use(await startSluiceServer(bench, { root }));
  const linked = running.use(await startSluiceServer(bench, { root, delivery: "downloadUrl" }));
  const lists = await writeLists(bench, files, linked.endpoint);
  const require = createRequire(import.meta.url);
  const command = join(dirname(require.resolve("@sluice/cli/package.json")), "dist/main.js");
  const expected = bytesOf(bench);
  const folders = new Set(files.map((file) => dirname(file)));
  const subject = (
    name: string,
    save: (target: string) => Promise<number>,
    absent?: string,
  ): Subject => ({
    name,
    absent,
    async measure() {
      const target = await bench.scratch("saved");
      for (const folder of folders) await mkdir(join(target, folder));
      const seconds = await save(target);
      const bytes = await bytesBelow(target);
      if (bytes !== expected) throw new Error(`bench: ${name}: ${bytes} of ${expected} bytes`);
      await rm(target, { recursive: true });
      return { seconds, rate: 1 / seconds, filesPerSecond: files.length / seconds };
    },
  });
  const run = async (program: string, ...args: readonly string[]): Promise<number> =>
    (await runToEnd(program, args, { signal: bench.signal, timeoutMs: 600_000 })).seconds;
  const seen = async (server: ServerProcess, program: string, ...args: readonly string[]) =>
    (await observeClient(bench, program, args, server)).seconds;
  const quiet =
    "--quiet --file-allocation=none --allow-overwrite=true --no-conf --no-proxy=* --max-connection-per-server=16";
  const subjects = [
    subject(
      many.aria2,
      (target) => run("aria2c", "-i", lists.aria2, "-j16", `--dir=${target}`, ...quiet.split(" ")),
      await absentWithout("aria2c"),
    ),
    subject(many.curl, (target) => {
      const flags = ["--silent", "--fail", "--create-dirs", "--noproxy", "*"];
      const parallel = ["--parallel", "--parallel-max", "16"];
      return run("curl", ...flags, ...parallel, "--output-dir", target, "-K", lists.curl);
    }),
    subject(many.bare, (target) => seen(linked, "bare-client", "tree", lists.bare, target, "16")),
    subject(many.synced, (target) =>
      seen(linked, "bare-client", "tree", lists.bare, target, "16", "sync"),
    ),
    subject(many.called, (target) =>
      seen(direct, "mcp-client", "bare-tree", direct.endpoint, target, "16"),
    ),
    subject(many.saveTo, (target) =>
      seen(direct, "mcp-client", "tree", direct.endpoint, target, "16"),
    ),
    subject(many.command, (target) => {
      const args = [command, "get", direct.endpoint, ...files.map(uriOf)];
      return run(process.execPath, ...args, "-y", "-j16", "-o", `${target}/`);
    }),
  ];
  // a run takes minutes
  return takeTurns(bench, subjects, Math.min(bench.runs, 3));
}

/** Writes the files, all of them different. */
async function writeTree(bench: Bench): Promise<{ root: string; files: readonly string[] }> {
  const root = await bench.scratch("tree");
  const block = randomBytes(MiB);
  const files: string[] = [];
  for (let n = 0; n < filesOf(bench); n += 1) {
    const folder = `d${Math.floor(n / filesOfFolder)}`;
    if (n % filesOfFolder === 0) await mkdir(join(root, folder));
    block.writeUInt32LE(n);
    const file = `${folder}/${n}.bin`;
    await writeFile(join(root, file), block.subarray(0, sizeOf(n)));
    files.push(file);
  }
  return { root, files };
}

/** The lists that aria2, curl and the bare program read. */
async function writeLists(
  bench: Bench,
  files: readonly string[],
  endpoint: string,
): Promise<Readonly<Record<"aria2" | "curl" | "bare", string>>> {
  const directory = await bench.scratch("lists");
  const urls: string[] = [];
  for (let at = 0; at < files.length; at += 32) {
    const some = files.slice(at, at + 32);
    urls.push(...(await Promise.all(some.map((file) => downloadUrlOf(endpoint, uriOf(file))))));
  }
  const write = async (name: string, line: (url: string, file: string) => string) => {
    const path = join(directory, `${name}.txt`);
    await writeFile(path, urls.map((url, n) => line(url, files[n]!)).join("\n"));
    return path;
  };
  return {
    aria2: await write("aria2", (url, file) => `${url}\n out=${file}`),
    curl: await write("curl", (url, file) => `url = "${url}"\noutput = "${file}"`),
    bare: await write("bare", (url, file) => `${url} ${file}`),
  };
}

async function bytesBelow(directory: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name))).size;
  return bytes;
}
