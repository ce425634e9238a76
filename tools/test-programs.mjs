// Programs that tests start as processes, compiled once for each state of the sources: a process that has to compile
// itself takes ten times as long to start. Every module keeps the address of its source.
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "vite";
import { hashTree } from "./hash-tree.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const cache = join(root, "node_modules", ".cache", "test-programs");
/** How the name of a folder begins that a run still writes. */
const partial = "partial-";
const sources = [
  "apps/cluster/src/cluster.ts",
  "apps/cluster/src/server.ts",
  "apps/demo-server/src/client-process.ts",
  "apps/demo-server/src/demo.ts",
  "apps/demo-server/src/server-process.ts",
  "e2e/bed/programs/bridge-links.ts",
  "e2e/bed/programs/diagnose.ts",
  "e2e/bed/programs/download.ts",
  "e2e/bed/programs/flood.ts",
  "e2e/bed/programs/move-binary.ts",
  "e2e/bed/programs/serve.ts",
  "e2e/bed/programs/serve-binary.ts",
  "e2e/bed/programs/serve-sdk-example.ts",
  "e2e/bed/programs/serve-shared.ts",
  "e2e/bed/programs/serve-draining.ts",
  "e2e/bed/programs/serve-flooded.ts",
  "e2e/bed/programs/serve-storage.ts",
  "e2e/bed/programs/serve-surveys.ts",
  "e2e/bed/programs/serve-unread.ts",
  "e2e/bed/programs/serve-uploads.ts",
  "e2e/examples/archive.ts",
  "e2e/examples/bucket.ts",
  "e2e/examples/client.ts",
  "e2e/examples/client-errors.ts",
  "e2e/examples/file-arguments.ts",
  "e2e/examples/file-values.ts",
  "e2e/examples/first-client.ts",
  "e2e/examples/first-server.ts",
  "e2e/examples/files-page.ts",
  "e2e/examples/links.ts",
  "e2e/examples/report.ts",
  "e2e/examples/roles.ts",
  "e2e/examples/sdk1-client.ts",
  "e2e/examples/sdk1-server.ts",
  "e2e/examples/send-tus.ts",
  "e2e/examples/server.ts",
  "e2e/examples/stdio-server.ts",
  "e2e/examples/table.ts",
  "e2e/examples/upload-server.ts",
  "e2e/examples/user-folders.ts",
  "e2e/examples/whole-client.ts",
  "e2e/literal/binary-rfc/stdio-server.ts",
  "packages/archive/test/memory-process.ts",
  "packages/bridge/test/serving-process.ts",
  "packages/bridge/test/bridge-process.ts",
  "packages/bridge/test/spooling-process.ts",
  "packages/cli/src/main.ts",
  "packages/client/test/memory-process.ts",
  "packages/client/test/reading-process.ts",
  "packages/client/test/saving-process.ts",
  "packages/server/test/provide-memory-process.ts",
  "packages/storage/test/examples/check-memory.ts",
  "packages/storage/test/examples/node-test.ts",
  "packages/storage-graph/test/transfer-process.ts",
  "packages/storage-s3/test/memory-process.ts",
  "packages/storage-azure-blob/test/memory-process.ts",
  "packages/state-redis/test/claiming-process.ts",
  "packages/sluice/src/main.ts",
  "packages/transport-stdio/test/ended-process.ts",
  "packages/transport-stdio/test/official-process.ts",
  "packages/transport-stdio/test/reading-process.ts",
  "packages/transport-stdio/test/readme-process.ts",
  "packages/transport-stdio/test/serving-process.ts",
  "packages/transport-ws/test/serving-process.ts",
  "packages/client/test/sending-process.ts",
  "packages/uploads/test/serving-process.ts",
];

/** Called by vitest before the first test; `inject("programs")` gives the path of each program by its source. */
export default async function providePrograms({ provide }) {
  // no node_modules above it: what is not compiled into a program must be missed
  const folder = await mkdtemp(join(tmpdir(), "sluice-programs-"));
  const kept = join(cache, hashTree(root));
  if (existsSync(kept)) await cp(kept, folder, { recursive: true });
  else {
    await compile(folder);
    await keep(folder, kept);
  }
  provide(
    "programs",
    Object.fromEntries(sources.map((source) => [source, join(folder, `${nameOf(source)}.mjs`)])),
  );
  return () => rm(folder, { recursive: true });
}

async function compile(folder) {
  await build({
    root,
    configFile: false,
    logLevel: "silent",
    ssr: { noExternal: true, resolve: { conditions: ["@sluice/source", "node"] } },
    plugins: [{ name: "own-address", transform: keepAddress }],
    build: {
      ssr: true,
      outDir: folder,
      minify: false,
      rolldownOptions: {
        input: Object.fromEntries(sources.map((source) => [nameOf(source), join(root, source)])),
        output: {
          entryFileNames: "[name].mjs",
          chunkFileNames: "[name]-[hash].mjs",
          // what most programs load is one file: a process that opens a hundred starts slower
          codeSplitting: { groups: [{ name: "shared", minShareCount: sources.length / 2 }] },
        },
      },
    },
  });
}

/** Keeps what was compiled for the next run, in the place of what was kept before. */
async function keep(folder, kept) {
  await mkdir(cache, { recursive: true });
  for (const name of await readdir(cache))
    if (!name.startsWith(partial)) await rm(join(cache, name), { recursive: true, force: true });
  const copy = await mkdtemp(join(cache, partial));
  await cp(folder, copy, { recursive: true });
  // another run may have been faster
  await rename(copy, kept).catch(() => rm(copy, { recursive: true }));
}

/** Programs whose sources lie beside each other do so, too. */
function nameOf(source) {
  return join(dirname(source).replaceAll("/", "_"), basename(source, ".ts"));
}

function keepAddress(code, id) {
  if (id.includes("node_modules") || !code.includes("import.meta.url")) return undefined;
  return code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href));
}
