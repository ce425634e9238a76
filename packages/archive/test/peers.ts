import { execFile, spawnSync } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);
// names are UTF-8 wherever the tests run
const env = { ...process.env, LC_ALL: "C.UTF-8", TZ: "UTC" };

/** A program that is not ours and reads archives. */
export interface Peer {
  readonly name: string;
  readonly format: "zip" | "tar";
  /** Extracts an archive into the folder it runs in. */
  extract(archive: string, folder: string): Promise<unknown>;
  /**
   * Reads an archive whole, checks what it can, and gives the sizes by path, without extracting; or reads no more than
   * its listing.
   */
  sizes(archive: string, what?: "listing"): Promise<ReadonlyMap<string, number>>;
}

async function output(program: string, args: readonly string[], cwd?: string): Promise<string> {
  const { stdout } = await run(program, args, { env, cwd, maxBuffer: 2 ** 30 });
  return stdout;
}

const zipExtract = `
import sys, zipfile
zipfile.ZipFile(sys.argv[1]).extractall()
`;
const zipSizes = `
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert len(sys.argv) > 2 or archive.testzip() is None
for i in archive.infolist(): print(i.file_size, i.filename)
`;
// the filter "data" refuses what could leave the folder
const tarExtract = `
import sys, tarfile
archive = tarfile.open(sys.argv[1])
if hasattr(tarfile, "data_filter"): archive.extraction_filter = tarfile.data_filter
archive.extractall()
`;
const tarSizes = `
import sys, tarfile
for i in tarfile.open(sys.argv[1]): print(i.size, i.name)
`;

const sizesOf = (lines: string): ReadonlyMap<string, number> =>
  new Map(
    lines
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => {
        const space = line.indexOf(" ");
        return [line.slice(space + 1), Number(line.slice(0, space))];
      }),
  );

const python = (script: string, args: readonly string[], cwd?: string): Promise<string> =>
  output("python3", ["-X", "utf8", "-c", script, ...args], cwd);

/** Size and path of each line of a long listing. */
function longListing(text: string, line: RegExp): ReadonlyMap<string, number> {
  const found = text.split("\n").flatMap((each) => line.exec(each)?.slice(1) ?? []);
  const sizes = new Map<string, number>();
  for (let index = 0; index < found.length; index += 2)
    sizes.set(found[index + 1]!, Number(found[index]));
  return sizes;
}

const bsdtar = (format: "zip" | "tar"): Peer => ({
  name: `bsdtar (${format})`,
  format,
  extract: (archive, folder) => output("bsdtar", ["-xf", archive], folder),
  sizes: async (archive) =>
    longListing(
      await output("bsdtar", ["-tvf", archive]),
      /^-\S+\s+\d+\s+\S+\s+\S+\s+(\d+) \S+\s+\S+\s+\S+ (.*)$/,
    ),
});

const known: readonly (readonly [program: string, peers: readonly Peer[]])[] = [
  [
    "unzip",
    [
      {
        name: "Info-ZIP unzip",
        format: "zip",
        extract: (archive, folder) => output("unzip", ["-q", archive], folder),
        async sizes(archive, what) {
          if (!what) await output("unzip", ["-tqq", archive]);
          return longListing(await output("unzip", ["-l", archive]), /^ *(\d+)  \S+ \S+   (.*)$/);
        },
      },
    ],
  ],
  ["bsdtar", [bsdtar("zip"), bsdtar("tar")]],
  [
    "python3",
    [
      {
        name: "Python's zipfile",
        format: "zip",
        extract: (archive, folder) => python(zipExtract, [archive], folder),
        sizes: async (archive, what) =>
          sizesOf(await python(zipSizes, what ? [archive, what] : [archive])),
      },
      {
        name: "Python's tarfile",
        format: "tar",
        extract: (archive, folder) => python(tarExtract, [archive], folder),
        sizes: async (archive) => sizesOf(await python(tarSizes, [archive])),
      },
    ],
  ],
];

/** The peers that this machine has. Says which it lacks. */
export function findPeers(): readonly Peer[] {
  return known.flatMap(([program, peers]) => {
    // each of them exits at once with these arguments, and is an error where it is not there
    if (spawnSync(program, ["--version"], { stdio: "ignore" }).error === undefined) return peers;
    console.info(`skipped: archives are not read by ${program}, which is not installed`);
    return [];
  });
}
