import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, inject, onTestFinished, test } from "vitest";
import { startS3StandIn } from "../../../packages/storage-s3/test/stand-in/stand-in.ts";
import { canRun } from "./bed.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;

/** Runs the program of `npm run cluster`, with a temporary folder of its own. */
async function run(env: Readonly<Record<string, string>>) {
  const temporary = await mkdtemp(join(tmpdir(), "sluice-starter-"));
  onTestFinished(() => rm(temporary, { recursive: true }));
  const child = spawn(process.execPath, [inject("programs")["apps/cluster/src/cluster.ts"]!], {
    env: { ...process.env, TMPDIR: temporary, PORT: "0", ...env },
  });
  const [output, errors, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close") as Promise<[number]>,
  ]);
  return { status, output, errors, left: await readdir(temporary) };
}

test.skipIf(!canRun)(
  "the cluster shows what its processes share, and cleans up",
  async () => {
    await using store = await startS3StandIn();
    const { status, output, left } = await run({
      S3_BUCKET: store.bucket,
      S3_ENDPOINT: store.endpoint,
      AWS_ACCESS_KEY_ID: store.credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: store.credentials.secretAccessKey,
    });
    expect(output).toMatch(/^Three processes behind nginx at http:.*Redis; bucket/);
    for (const line of ["list: files:", "download: ", "single use: of 15 tries", "revoke: "])
      expect(output).toContain(`\n  ${line}`);
    expect(output).toContain("\n  rolling restart: a, b, c were replaced during one download");
    expect(output.match(/audit: the trail of [abc] has \d+ lines, none changed/g)).toHaveLength(3);
    expect(status).toBe(0);
    expect(left).toEqual([]);
  },
  120_000,
);

test.skipIf(!isDeep)(
  "a missing part is named in one sentence, with what to do",
  async () => {
    await using store = await startS3StandIn();
    const { status, errors, left } = await run({
      PATH: "",
      S3_BUCKET: store.bucket,
      S3_ENDPOINT: store.endpoint,
      AWS_ACCESS_KEY_ID: store.credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: store.credentials.secretAccessKey,
      NODE_NO_WARNINGS: "1",
    });
    expect(errors).toBe(
      "cluster: there is no redis-server to start: install Redis (apt-get install redis-server, brew install redis)\n",
    );
    expect(status).toBe(1);
    expect(left).toEqual([]);
  },
  60_000,
);
