// Runs the conformance kit over every backend and compares docs/reference/storage-matrix.md with what it finds;
// with --write it writes the page:   npm run matrix
import { readFile, writeFile } from "node:fs/promises";
import { checkBackend, type CreateFixture } from "@sluice/storage/conformance";
import { createFixture as createAzureBlobFixture } from "../../packages/storage-azure-blob/test/fixture.ts";
import { createS3Fixture as createFilesSdkFixture } from "../../packages/storage-files-sdk/test/s3-fixture.ts";
import { createFixture as createFsFixture } from "../../packages/storage-fs/test/fixture.ts";
import { createFixture as createGraphFixture } from "../../packages/storage-graph/test/fixture.ts";
import { createFixture as createS3Fixture } from "../../packages/storage-s3/test/fixture.ts";
import { createFixture as createMemoryFixture } from "../../packages/storage/test/fixture.ts";
import { operationsOf, type Row, toPage } from "./page.ts";

const backends: readonly (Pick<Row, "name" | "folder" | "on"> & {
  readonly createFixture: CreateFixture;
})[] = [
  { name: "memory", folder: "storage", on: "itself", createFixture: createMemoryFixture },
  { name: "fs", folder: "storage-fs", on: "a folder", createFixture: createFsFixture },
  {
    name: "s3",
    folder: "storage-s3",
    on: "a stand-in in this repository",
    createFixture: createS3Fixture,
  },
  {
    name: "azure-blob",
    folder: "storage-azure-blob",
    on: "Azurite",
    createFixture: createAzureBlobFixture,
  },
  {
    name: "graph",
    folder: "storage-graph",
    on: "an emulator in this repository",
    createFixture: createGraphFixture,
  },
  {
    name: "files-sdk",
    folder: "storage-files-sdk",
    on: "its S3 adapter, over the stand-in",
    createFixture: createFilesSdkFixture,
  },
];
/** A disk that others write to answers late. */
const deadlineMs = 50_000;
const page = new URL("../../docs/reference/storage-matrix.md", import.meta.url);

async function toRow({ createFixture, ...row }: (typeof backends)[number]): Promise<Row> {
  const { backend, dispose } = await createFixture();
  const operations = operationsOf(backend);
  await dispose?.();
  const findings = await checkBackend(createFixture, { deadlineMs });
  return { ...row, operations, findings };
}

const rows: Row[] = [];
for (const backend of backends) rows.push(await toRow(backend));
const text = toPage(rows);
if (process.argv.includes("--write")) await writeFile(page, text);
else if ((await readFile(page, "utf8").catch(() => "")) !== text) {
  console.error(
    "docs/reference/storage-matrix.md says something else than the kit finds: npm run matrix",
  );
  process.exitCode = 1;
} else console.log(`matrix: ${rows.length} backends keep what the page says`);
