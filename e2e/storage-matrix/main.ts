// Runs the conformance kit over every backend and compares docs/storage-matrix.md with what it finds;
// with --write it writes the page:   npm run matrix
import { readFile, writeFile } from "node:fs/promises";
import { checkBackend, type CreateFixture } from "@sluice/storage/conformance";
import { createFixture as createFilesSdkFixture } from "../../packages/storage-files-sdk/test/fixture.ts";
import { createFixture as createFsFixture } from "../../packages/storage-fs/test/fixture.ts";
import { createFixture as createMemoryFixture } from "../../packages/storage/test/fixture.ts";
import { operationsOf, type Row, toPage } from "./page.ts";

const backends: readonly (readonly [string, string, CreateFixture])[] = [
  ["memory", "storage", createMemoryFixture],
  ["fs", "storage-fs", createFsFixture],
  ["files-sdk", "storage-files-sdk", createFilesSdkFixture],
];
/** A disk that others write to answers late. */
const deadlineMs = 50_000;
const page = new URL("../../docs/storage-matrix.md", import.meta.url);

async function toRow(name: string, folder: string, createFixture: CreateFixture): Promise<Row> {
  const { backend, dispose } = await createFixture();
  const operations = operationsOf(backend);
  await dispose?.();
  const findings = await checkBackend(createFixture, { deadlineMs });
  return { name, package: folder, operations, findings };
}

const rows: Row[] = [];
for (const [name, folder, createFixture] of backends)
  rows.push(await toRow(name, folder, createFixture));
const text = toPage(rows);
if (process.argv.includes("--write")) await writeFile(page, text);
else if ((await readFile(page, "utf8").catch(() => "")) !== text) {
  console.error("docs/storage-matrix.md says something else than the kit finds: npm run matrix");
  process.exitCode = 1;
} else console.log(`matrix: ${rows.length} backends keep what the page says`);
