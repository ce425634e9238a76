import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type ArchiveFile, archiveOf, type ArchiveFormat } from "@sluice/archive";
import { createMemoryBackend } from "@sluice/storage";

const storage = createMemoryBackend({ file: "0123456789" });

async function* filesOf(count: number): AsyncGenerator<ArchiveFile> {
  for (let index = 0; index < count; index++)
    yield {
      key: `reports/quarter-${index % 4}/department-${index % 50}/file-${index}.csv`,
      open: (options) => storage.open("file", options),
    };
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const heldNow = (): number => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

/** Reads an archive to its end, and tells what the process grew by, and what it held just before. */
async function measure(count: number): Promise<{ grownBytes: number; heldBytes: number }> {
  const before = { rss: process.memoryUsage.rss(), held: heldNow() };
  const format = process.argv[2] as ArchiveFormat;
  const reader = archiveOf(filesOf(count), { format }).getReader();
  let peak = 0;
  let held = 0;
  for (let chunks = 0; ; chunks++) {
    const { done } = await reader.read();
    if (done) break;
    if (chunks % 100 === 0) peak = Math.max(peak, process.memoryUsage.rss());
    if (chunks === count - 1) held = heldNow();
  }
  return { grownBytes: peak - before.rss, heldBytes: held - before.held };
}

await measure(50_000);
process.stdout.write(JSON.stringify(await measure(100_000)));
