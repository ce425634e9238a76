import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, expect, inject, test } from "vitest";

// eight seconds of a processor: CI runs it beside the upload page and the cluster
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.log("demo: its whole run is for SLUICE_DEEP=1");

const root = mkdtempSync(join(tmpdir(), "sluice-demo-test-"));
afterAll(() => rmSync(root, { recursive: true }));

/** Runs the program of `npm run demo`, with a temporary folder of its own. */
async function demo(folder: string): Promise<{ status: number; output: string; left: string[] }> {
  const temporary = mkdtempSync(join(root, "tmp-"));
  const program = inject("programs")["apps/demo-server/src/demo.ts"]!;
  const env = { ...process.env, TMPDIR: temporary, INIT_CWD: root, FORCE_COLOR: undefined };
  const child = spawn(process.execPath, [program, folder], { env });
  const [output, [status]] = await Promise.all([
    text(child.stdout),
    once(child, "close") as Promise<[number]>,
  ]);
  const left = readdirSync(temporary).filter((name) => name.startsWith("sluice"));
  return { status, output, left };
}

test.runIf(isDeep)(
  "the demo downloads in every mode, mends a broken line, fetches what is made, takes a picture, and cleans up",
  async () => {
    const files = mkdtempSync(join(root, "files-"));
    writeFileSync(join(files, "report (final).pdf"), Buffer.alloc(2 ** 20, "report"));
    const { status, output, left } = await demo(files);
    expect(output).toContain("files://demo/report%20%28final%29.pdf");
    for (const way of ["direct", "redirect", "downloadUrl", "websocket", "base64"])
      expect(output).toMatch(new RegExp(`^  ${way} .*✓ SHA-256 is that of the file$`, "m"));
    expect(output).toMatch(/cut after .*\n.*goes on with Range: bytes=\d{5,}-\n/);
    expect(output).toMatch(/^ {2}notes:\/\/demo\/welcome\.md +lies in memory: # Welcome$/m);
    expect(output).toMatch(
      /^ {2}reports:\/\/demo\/files\.csv +a generator writes a line for each file: 1, 1\.0 MiB$/m,
    );
    expect(output).toMatch(/^ {2}archives:\/\/demo\/all\.zip +all of them, stored: 1\.0 MiB in /m);
    for (const era of ["legacy", "modern"])
      expect(output).toMatch(
        new RegExp(`^  ${era} .*✓ 5120 × 3840, SHA-256 is that of the file$`, "m"),
      );
    expect(output).toMatch(/base64 takes [\d.]+ times as long/);
    expect(output).toMatch(/^ +\d+ {2}read +complete +1\.0 MiB {2}[0-9a-f]{12}… {2}files:\S+pdf$/m);
    expect(output).toMatch(/✓ \d+ lines, none changed/);
    expect(output).toMatch(/✗ .+ line \d+: altered: record \d+ is not what was written$/m);
    // oxlint-disable-next-line no-control-regex -- finding escape sequences is the point
    expect(output).not.toMatch(/[\u001b\r]/);
    expect(status).toBe(0);
    expect(left).toEqual([]);
  },
  120_000,
);

test("a demo that cannot be shown ends with 1", async () => {
  const { status, output, left } = await demo("nothing-here");
  expect(output).toMatch(/^demo: .+$/m);
  expect(status).toBe(1);
  expect(left).toEqual([]);
}, 60_000);
