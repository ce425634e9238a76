import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createLargeContent } from "@sluice/storage/conformance";
import { expect, test } from "vitest";
import { startS3StandIn } from "../../storage-s3/test/stand-in/stand-in.ts";
import type { ReadingOrder, ReadingReport } from "./reading-process.ts";

const packageFolder = fileURLToPath(new URL("..", import.meta.url));
const mebibyte = 1024 * 1024;
const size = 1024 * mebibyte;

// a process that compiles itself first: not for every run
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
test.skipIf(!isDeep)(
  "a gibibyte through S3 grows the process by at most 48 MiB (deep)",
  async () => {
    await using standIn = await startS3StandIn();
    const tail = new Uint8Array([1]);
    standIn.put("warm-up", createLargeContent(32 * mebibyte, tail));
    standIn.put("large", createLargeContent(size, tail));
    const { bucket, endpoint, credentials } = standIn;
    const order: ReadingOrder = { bucket, endpoint, credentials };
    const flags = ["--conditions=@sluice/source", "--import", "tsx", "test/reading-process.ts"];
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [...flags, JSON.stringify(order)],
      { cwd: packageFolder, timeout: 60_000 },
    );
    const { bytes, growth } = JSON.parse(stdout) as ReadingReport;
    expect(bytes).toBe(size);
    expect(growth).toBeLessThan(48 * mebibyte);
  },
  70_000,
);
