import { mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { MiB, type Bench } from "../../bench.ts";
import { runToEnd } from "../../child.ts";
import { observeClient } from "../../client-process.ts";
import { createFileTree, type FileTree } from "../../file-tree.ts";
import { interleave, type Subject } from "../../interleave.ts";
import { isInstalled } from "../../outside-client.ts";
import { downloadUrlOf, startSluiceServer, uriOf } from "../../sluice.ts";
import { across, ratio, type Summary } from "../../statistics.ts";
import { rowsOf, type Experiment, type Table } from "../../table.ts";

const names = {
  aria2: "aria2 -i list -j16, unverified",
  curl: "curl -K list, 16 at once, unverified",
  bare: "bare Node, 16 at once, hashed",
  synced: "bare Node, hashed, synced to disk",
  called: "bare Node with the SDK's call for each file, hashed, synced",
  saveTo: "Sluice saveTo, 16 at once, verified",
  command: "sluice get -j16, verified",
};

/** Many files to the disk. */
export const tree: Experiment = {
  id: "tree",
  title: "Downloading a folder of small files",
  async run(bench: Bench): Promise<Table> {
    const all = await createFileTree(bench, bench.quick ? 400 : 10_000);
    await using direct = await startSluiceServer(bench, { root: all.root });
    const { root } = all;
    await using linked = await startSluiceServer(bench, { root, delivery: "downloadUrl" });
    const listed = await writeLists(bench, all, linked.endpoint);
    const command = join(dirname(require.resolve("@sluice/cli/package.json")), "dist/main.js");
    const uris = all.names.map(uriOf);
    const run = (program: string, ...args: readonly string[]): Promise<number> =>
      runToEnd(program, args, { signal: bench.signal, timeoutMs: 600_000 }).then(
        ({ seconds }) => seconds,
      );
    const subjects = [
      subjectOf(bench, names.aria2, all, (target) =>
        run("aria2c", "-i", listed.aria2, "-j16", `--dir=${target}`, ...aria2Flags),
      ),
      subjectOf(bench, names.curl, all, (target) => {
        const flags = ["--silent", "--fail", "--create-dirs", "--noproxy", "*"];
        const many = ["--parallel", "--parallel-max", "16"];
        return run("curl", ...flags, ...many, "--output-dir", target, "-K", listed.curl);
      }),
      subjectOf(bench, names.bare, all, async (target) => {
        const args = [listed.bare, target, "16"];
        return (await observeClient(bench, "bare-tree", args, linked)).seconds;
      }),
      subjectOf(bench, names.synced, all, async (target) => {
        const args = [listed.bare, target, "16", "sync"];
        return (await observeClient(bench, "bare-tree", args, linked)).seconds;
      }),
      subjectOf(bench, names.called, all, async (target) => {
        const args = [direct.endpoint, target, "16"];
        return (await observeClient(bench, "bare-call-tree", args, direct)).seconds;
      }),
      subjectOf(bench, names.saveTo, all, async (target) => {
        const args = [direct.endpoint, target, "16"];
        return (await observeClient(bench, "tree-client", args, direct)).seconds;
      }),
      subjectOf(bench, names.command, all, (target) =>
        run(
          process.execPath,
          command,
          "get",
          direct.endpoint,
          ...uris,
          "-y",
          "-j16",
          "-o",
          `${target}/`,
        ),
      ),
    ];
    const absent = (await isInstalled("aria2c")) ? [] : [names.aria2];
    const samples = await interleave(
      subjects.filter(({ name }) => !absent.includes(name)),
      // a run takes minutes
      { runs: Math.min(bench.runs, 3) },
    );
    const of = (name: string): Summary | undefined =>
      ratio(samples.get(name), samples.get(names.aria2), "rate");
    return {
      how: `${all.names.length} files of 8 KiB to 1 MiB, ${(all.bytes / MiB).toFixed(0)} MiB in all, from Sluice. aria2, curl and the bare program have a list of download URLs that was made before the clock starts; that program hashes each file, gives it its name by a rename, and checks nothing. Sluice's client lists and asks for each file, hashes it, and has it on the disk before it gives it its name, as the second and the third bare program do; the others leave that to the system. The third bare program lists and asks through the SDK's client, too. The command has all URIs as arguments and puts the files into one folder. aria2 = 1.00.`,
      columns: [
        { key: "rate", title: "rate", digits: 2, bars: true },
        { key: "seconds", title: "seconds", digits: 2 },
        { key: "files", title: "files/s", digits: 0 },
      ],
      rows: rowsOf(Object.values(names), absent, (name) => ({
        rate: of(name),
        seconds: across(samples.get(name), "seconds"),
        files: across(samples.get(name), "rate", all.names.length),
      })),
      reach: [
        {
          claim: "saveTo of aria2 with a list",
          atLeast: 1.5,
          got: of(names.saveTo),
          floor: {
            got: of(names.called),
            profile:
              "Half of the client's processor time for a file is a call through the SDK, and a third is the system's work at the disk and the sockets.",
          },
        },
      ],
    };
  },
};

const require = createRequire(import.meta.url);
const aria2Flags =
  "--quiet --file-allocation=none --allow-overwrite=true --no-conf --no-proxy=* --max-connection-per-server=16".split(
    " ",
  );

/** The lists that aria2, curl and the bare program read. */
async function writeLists(
  bench: Bench,
  { names: files }: FileTree,
  endpoint: string,
): Promise<{ readonly aria2: string; readonly curl: string; readonly bare: string }> {
  const directory = await bench.scratch("lists");
  const [aria2, curl, bare] = ["aria2", "curl", "bare"].map((name) =>
    join(directory, `${name}.txt`),
  ) as [string, string, string];
  const urls: string[] = [];
  for (let at = 0; at < files.length; at += 32) {
    const some = files.slice(at, at + 32);
    urls.push(...(await Promise.all(some.map((name) => downloadUrlOf(endpoint, uriOf(name))))));
  }
  const lines = (line: (url: string, name: string) => string): string =>
    urls.map((url, n) => line(url, files[n]!)).join("\n");
  await writeFile(
    aria2,
    lines((url, name) => `${url}\n out=${name}`),
  );
  await writeFile(
    curl,
    lines((url, name) => `url = "${url}"\noutput = "${name}"`),
  );
  await writeFile(
    bare,
    lines((url, name) => `${url} ${name}`),
  );
  return { aria2, curl, bare };
}

function subjectOf(
  bench: Bench,
  name: string,
  all: FileTree,
  save: (target: string) => Promise<number>,
): Subject {
  return {
    name,
    async measure() {
      const target = await bench.scratch("saved");
      const folders = new Set(all.names.map((file) => dirname(file)));
      for (const folder of folders) await mkdir(join(target, folder));
      const seconds = await save(target);
      const bytes = await bytesBelow(target);
      if (bytes !== all.bytes) throw new Error(`bench: ${name}: ${bytes} of ${all.bytes} bytes`);
      await rm(target, { recursive: true });
      bench.say(`  ${name}: ${seconds.toFixed(2)} s`);
      return { seconds, rate: 1 / seconds };
    },
  };
}

async function bytesBelow(directory: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name))).size;
  return bytes;
}
