// @module-tag slow
// Programs that seek: the index of a film or of a table is at the end of its file, and they read it over a link first.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasForeign, runForeign } from "../bed/foreign-program.ts";
import { linkTo, startLinkSite } from "../bed/links.ts";
import { findPython } from "../bed/python.ts";
import type { Site } from "../bed/site.ts";

const program = (name: string): string =>
  fileURLToPath(new URL(`../bed/programs/${name}`, import.meta.url));
const hasFfmpeg = hasForeign("ffmpeg") && hasForeign("ffprobe");
const python = findPython("pyarrow", "pandas", "fsspec", "aiohttp");

let folder: string;
let site: Site;
/** Requests to links. */
let downloads = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-media-"));
  site = await startLinkSite({
    root: folder,
    sluice: { audit: ({ action }) => void (downloads += Number(action === "download")) },
  });
});
afterAll(async () => {
  await site[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

/** Runs a program that must succeed; resolves with what it printed. */
async function runs(command: string, ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runForeign(command, args, { cwd: folder });
  expect(code, `${command} ${args.join(" ")}: ${stderr}`).toBe(0);
  return stdout;
}

const link = async (key: string): Promise<string> => (await linkTo(site, key)).download_url;

describe.skipIf(!hasFfmpeg)("a film with its index at the end", () => {
  beforeAll(async () => {
    const picture = ["-f", "lavfi", "-i", "testsrc2=duration=10:size=320x180:rate=10"];
    const sound = ["-f", "lavfi", "-i", "sine=frequency=440:duration=10"];
    const codecs = ["-c:v", "mpeg4", "-q:v", "2", "-c:a", "aac"];
    await runs("ffmpeg", "-loglevel", "error", ...picture, ...sound, ...codecs, "film.mp4");
    await runs("ffmpeg", "-loglevel", "error", "-i", "film.mp4", "-c", "copy", "film.mkv");
  });

  test("is what players have to seek in", async () => {
    // the atom `moov`, and the element Cues
    const [mp4, mkv] = await Promise.all([
      readFile(join(folder, "film.mp4")),
      readFile(join(folder, "film.mkv")),
    ]);
    expect(mp4.indexOf("moov") / mp4.length).toBeGreaterThan(0.9);
    expect(mkv.lastIndexOf(Buffer.from("1c53bb6b", "hex")) / mkv.length).toBeGreaterThan(0.9);
  });

  test.each(["film.mp4", "film.mkv"])("%s: ffprobe reads what it is", async (key) => {
    const asks = ["-v", "error", "-show_entries", "format=duration,size,nb_streams", "-of", "json"];
    const known = JSON.parse(await runs("ffprobe", ...asks, key)) as object;
    expect(JSON.parse(await runs("ffprobe", ...asks, await link(key)))).toEqual(known);
  });

  test.each(["film.mp4", "film.mkv"])(
    "%s: ffmpeg takes pictures out of the middle, and all of it",
    async (key) => {
      const frame = (source: string, second: number): Promise<string> =>
        runs(
          "ffmpeg",
          "-v",
          "error",
          "-ss",
          `${second}`,
          "-i",
          source,
          "-frames:v",
          "1",
          "-f",
          "md5",
          "-",
        );
      const url = await link(key);
      const before = downloads;
      // any order, the same link
      for (const second of [8, 2]) expect(await frame(url, second)).toBe(await frame(key, second));
      // each asked for the beginning, for the index and for the place
      expect(downloads - before).toBeGreaterThanOrEqual(6);
      expect(await frame(key, 2)).not.toBe(await frame(key, 8));
      const all = ["-c", "copy", "-f", "md5", "-"];
      const known = await runs("ffmpeg", "-v", "error", "-i", key, ...all);
      expect(await runs("ffmpeg", "-v", "error", "-i", url, ...all)).toBe(known);
    },
  );
});

test.skipIf(python === undefined)(
  "pandas and pyarrow read a Parquet file, whole and in row groups",
  async () => {
    const path = join(folder, "table.parquet");
    await runs(python!, program("make_parquet.py"), path);
    const said = await runs(python!, program("read_parquet.py"), await link("table.parquet"), path);
    expect(JSON.parse(said)).toEqual({ rows: 120_000, columns: 3, groups: 3 });
  },
);
