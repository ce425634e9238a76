import { gzipSync } from "node:zlib";
import { rolldown, type OutputChunk } from "rolldown";
import { expect, test } from "vitest";

/** KiB of gzip that a page gets: at once, and of each part that it loads when it needs it. */
interface PageSize {
  readonly atOnce: number;
  readonly later: readonly number[];
}

/** What the imports of a program cost in a page, minified, with everything that they stand on. */
async function sizeOf(program: string): Promise<PageSize> {
  const entry = new URL("entry.js", import.meta.url).pathname;
  const bundled = await rolldown({
    input: entry,
    platform: "browser",
    resolve: { conditionNames: ["@sluice/source", "browser", "import", "default"] },
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id === entry ? entry : undefined),
        load: (id) => (id === entry ? program : undefined),
      },
    ],
    logLevel: "silent",
  });
  const { output } = await bundled.generate({ minify: true });
  const chunks = output.filter((file): file is OutputChunk => file.type === "chunk");
  const first = chunks.find(({ isEntry }) => isEntry)!;
  const atOnce = new Set([first.fileName, ...first.imports]);
  const kib = (code: string): number => gzipSync(code, { level: 9 }).length / 1_024;
  return {
    atOnce: kib(
      chunks
        .filter(({ fileName }) => atOnce.has(fileName))
        .map(({ code }) => code)
        .join("\n"),
    ),
    later: chunks
      .filter(({ fileName }) => !atOnce.has(fileName))
      .map(({ code }) => kib(code))
      .toSorted((one, other) => one - other),
  };
}

const use = (names: string, specifier: string): string =>
  `import { ${names} } from "${specifier}"; globalThis.used = [${names}];`;
const download = use("createStreaming, streamResource", "@sluice/client");

test.each([
  ["streaming capabilities", use("streamingCapabilities", "@sluice/client/internal"), 0.5],
  ["errors", use("SluiceError", "@sluice/client"), 0.6],
  ["a file by its URL", use("openForeignFile", "@sluice/client/internal"), 5.5],
  ["a download", download, 15],
  [
    "a download and a cache",
    `${download} ${use("createResourceCache", "@sluice/client/cache")}`.replace("used", "more"),
    16,
  ],
  ["an upload", use("createFileSender", "@sluice/client/send"), 15],
])("a page gets %s within its bound", async (_, program, bound) => {
  const { atOnce } = await sizeOf(program);
  expect(atOnce).toBeLessThanOrEqual(bound);
});

test("code that few pages need is loaded when it is needed", async () => {
  const { later } = await sizeOf(download);
  // direct answers, consent, events, refusals, SHA-256
  expect(later).toHaveLength(5);
  expect(Math.max(...later)).toBeLessThan(3);
  const { later: uploads } = await sizeOf(use("createFileSender", "@sluice/client/send"));
  // SHA-256, and the table of media types for files without one
  expect(uploads).toHaveLength(2);
  expect(uploads[1]).toBeGreaterThan(8);
});

test("negative control: a library that only servers need is found", { tags: "slow" }, async () => {
  const { atOnce } = await sizeOf(`${download} ${use("z", "zod")}`.replace("used", "more"));
  expect(atOnce).toBeGreaterThan(15);
});
