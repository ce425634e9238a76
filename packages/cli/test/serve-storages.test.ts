import { randomBytes } from "node:crypto";
import { startGraphEmulator } from "@sluice/graph-emulator";
import { expect, test, vi } from "vitest";
import { startS3StandIn } from "../../storage-s3/test/stand-in/stand-in.ts";
import { exitCodes } from "../src/outcome/exit-code.ts";
import { runHere } from "./run-here.ts";
import { serve, sluice, type Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const big = randomBytes(2 * 1024 ** 2);

/** What the list of files leads to in a browser, and what the command lists. */
async function readBig(served: Served): Promise<void> {
  const { stdout } = await sluice(["ls", served.url]);
  expect(stdout).toBe("files://local/big.bin\n");
  const { origin } = new URL(served.url);
  expect(await (await fetch(origin)).text()).toContain(`href="/open?file=big.bin"`);
  const opened = await fetch(`${origin}/open?file=big.bin`);
  expect(big.equals(Buffer.from(await opened.arrayBuffer()))).toBe(true);
}

test("a bucket is served as a folder is, with credentials of the environment", async () => {
  await using s3 = await startS3StandIn();
  s3.put("team/big.bin", big);
  const url = `s3://${s3.bucket}/team?region=${s3.region}&endpoint=${s3.endpoint}`;
  const served = await serve(url, [], {
    env: {
      AWS_ACCESS_KEY_ID: s3.credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
    },
  });
  await readBig(served);
  const { stderr } = await served.end();
  expect(stderr).toContain(`Serving ${url}`);
  expect(stderr).not.toContain(s3.credentials.secretAccessKey);
});

test("a drive is served, too", async () => {
  await using graph = await startGraphEmulator();
  graph.drive.put("team/big.bin", big);
  const { token } = await graph.credential.getToken();
  const env = { GRAPH_ACCESS_TOKEN: token, GRAPH_BASE_URL: graph.origins.graph };
  const served = await serve(`graph://${graph.drive.id}/team`, [], { env });
  await readBig(served);
  expect((await served.end()).stderr).not.toContain(token);
});

test.each([
  ["gs://bucket", /unknown scheme "gs:"; it is a folder, .*write \.\/ before it/],
  ["s3://KEY:hunter2@bucket", /has credentials in it.*AWS_ACCESS_KEY_ID/],
  ["azblob://files", /AZURE_STORAGE_CONNECTION_STRING/],
  ["graph://drive", /GRAPH_ACCESS_TOKEN/],
])("%s is a usage error that says what to write or set", async (source, message) => {
  const { status, stdout, stderr } = await runHere(["serve", source, "--port", "0"], {
    env: { AZURE_STORAGE_CONNECTION_STRING: "", AZURE_STORAGE_ACCOUNT: "", GRAPH_ACCESS_TOKEN: "" },
  });
  expect(status).toBe(exitCodes.usage.status);
  expect(stdout).toBe("");
  expect(stderr).toMatch(/^sluice: .+\n$/);
  expect(stderr).toMatch(message);
  expect(stderr).not.toContain("hunter2");
});
