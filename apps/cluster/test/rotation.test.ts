import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, onTestFinished, test } from "vitest";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const run = promisify(execFile);

test.skipIf(!isDeep)(
  "the commands of docs/guides/deploy/many-processes.md make keys and rotate them",
  async () => {
    const page = await readFile(
      new URL("../../../docs/guides/deploy/many-processes.md", import.meta.url),
      "utf8",
    );
    const commands = /^```sh\n(sluice keys[^]*?)^```$/m.exec(page)![1]!;
    const folder = await mkdtemp(join(tmpdir(), "sluice-rotation-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const program = inject("programs")["packages/cli/src/main.ts"]!;
    await writeFile(
      join(folder, "sluice"),
      `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`,
      {
        mode: 0o700,
      },
    );
    const env = { ...process.env, PATH: `${folder}:${process.env["PATH"]}` };
    const { stdout, stderr } = await run("sh", ["-e", "-c", commands], { cwd: folder, env });
    expect(stderr).toMatch(/is published: [^]*seals now: [^]*is retired: /);
    const [id, state, ...more] = stdout.trim().split(/\s/);
    expect([state, more]).toEqual(["current", []]);
    expect(
      (await run("sluice", ["keys", "drop", "keys", id!], { cwd: folder, env })).stderr,
    ).toContain(`${id} is gone`);
  },
);
