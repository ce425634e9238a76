/** A server in a process of its own that takes and gives bytes beside messages. It tells its parent the URL. */
import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFsBackend } from "@sluice/storage-fs";
import { startBinarySite } from "../binary-site.ts";
import { watchMemory } from "../watch.ts";

/** What the parent may set. */
export interface ServeBinarySettings {
  /** Files of zeros by their size in bytes. */
  readonly sparse?: Record<string, number>;
}

const { sparse = {} } = JSON.parse(process.argv[2] ?? "{}") as ServeBinarySettings;
const root = await mkdtemp(join(tmpdir(), "sluice-binary-"));
for (const [name, size] of Object.entries(sparse)) {
  await writeFile(join(root, name), "");
  await truncate(join(root, name), size);
}
const site = await startBinarySite(createFsBackend({ root }));
const memory = watchMemory();
process.on("message", () => process.send!(memory()));
process.on("disconnect", () => {
  void rm(root, { recursive: true, force: true }).finally(() => process.exit(0));
});
process.send!(site.url);
