import { randomBytes } from "node:crypto";
import { startGraphEmulator } from "@sluice/graph-emulator";
import { expect, test, vi } from "vitest";
import { sharedAzurite } from "../../storage-azure-blob/test/azurite.ts";
import { startS3StandIn } from "../../storage-s3/test/stand-in/stand-in.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, serveHere } from "./run-here.ts";
import { freePort, type Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const big = randomBytes(2 * 1024 ** 2);

/** What the list of files leads to in a browser, and what the command lists. */
async function readBig(served: Served): Promise<void> {
  const { stdout } = await runHere(["ls", served.url]);
  expect(stdout).toBe("files://local/big.bin\n");
  const { origin } = new URL(served.url);
  expect(await (await fetch(origin)).text()).toContain("open=files%3A%2F%2Flocal%2Fbig.bin");
  const opened = await fetch(`${origin}/?open=files://local/big.bin`);
  expect(big.equals(Buffer.from(await opened.arrayBuffer()))).toBe(true);
}

test("a bucket is served as a folder is, with credentials of the environment", async () => {
  await using s3 = await startS3StandIn();
  s3.put("team/big.bin", big);
  const url = `s3://${s3.bucket}/team?region=${s3.region}&endpoint=${s3.endpoint}`;
  const served = await serveHere(url, [], {
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
  const served = await serveHere(`graph://${graph.drive.id}/team`, [], { env });
  await readBig(served);
  expect((await served.end()).stderr).not.toContain(token);
});

test("errors of a bucket show at the start", async () => {
  await using s3 = await startS3StandIn();
  const env = {
    AWS_ACCESS_KEY_ID: s3.credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
  };
  const none = {
    AWS_ACCESS_KEY_ID: "",
    AWS_SECRET_ACCESS_KEY: "",
    AWS_EC2_METADATA_DISABLED: "true",
    AWS_CONFIG_FILE: "/dev/null",
    AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
  };
  const nowhere = `http://127.0.0.1:${await freePort()}`;
  const { network, notFound, denied } = exitCodes;
  const at = (bucket: string, endpoint = s3.endpoint): string =>
    `s3://${bucket}?region=${s3.region}&endpoint=${endpoint}`;
  for (const [source, variables, exit, said] of [
    [at("other-bucket"), env, notFound, /no such bucket .*; check the name of the bucket/],
    [at(s3.bucket), { ...env, AWS_SECRET_ACCESS_KEY: "hunter2" }, denied, /refuses .*; set AWS_/],
    [at(s3.bucket), none, denied, /there are no credentials; set AWS_ACCESS_KEY_ID/],
    [at(s3.bucket, nowhere), env, network, /ECONNREFUSED\); check the network.*endpoint=/],
  ] as const) {
    const args = ["serve", source, "--port", "0", "--no-audit"];
    const { status, stdout, stderr } = await runHere(args, { env: variables });
    expect(stderr).toMatch(said);
    // the SDK warns of old versions of Node in lines of its own
    expect(stderr).toMatch(/(?:^|\n)sluice: s3:.+\n$/);
    expect([status, stdout]).toEqual([exit.status, ""]);
    expect(stderr).not.toContain("hunter2");
  }
});

test("errors of a drive show at the start", async () => {
  await using graph = await startGraphEmulator();
  const { token } = await graph.credential.getToken();
  for (const [drive, given, said] of [
    ["other", token, /; check the id of the drive/],
    [graph.drive.id, "hunter2", /refuses the token; set GRAPH_ACCESS_TOKEN/],
  ] as const) {
    const env = { GRAPH_ACCESS_TOKEN: given, GRAPH_BASE_URL: graph.origins.graph };
    const args = ["serve", `graph://${drive}`, "--port", "0", "--no-audit"];
    const { status, stderr } = await runHere(args, { env });
    expect(stderr).toMatch(said);
    expect(status).toBe(exitCodes.denied.status);
    expect(stderr).not.toContain(given);
  }
});

test("errors of a container show at the start", async () => {
  const { url, account, key } = await sharedAzurite();
  const setting = `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${key};BlobEndpoint=${url};`;
  const args = ["serve", "azblob://no-such-container", "--port", "0", "--no-audit"];
  const env = { AZURE_STORAGE_CONNECTION_STRING: setting };
  const { status, stderr } = await runHere(args, { env });
  expect(stderr).toMatch(/no such container .*; check the name of the container/);
  expect(status).toBe(exitCodes.notFound.status);
});

test("the log tells why a list failed, and the client that the log does", async () => {
  await using s3 = await startS3StandIn();
  const url = `s3://${s3.bucket}?region=${s3.region}&endpoint=${s3.endpoint}`;
  const served = await serveHere(url, [], {
    env: {
      AWS_ACCESS_KEY_ID: s3.credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
    },
  });
  await s3[Symbol.asyncDispose]();
  const { status, stderr } = await runHere(["ls", served.url]);
  expect(stderr).toMatch(/answered: Busy, try again later; its log says why\n$/);
  expect(status).toBe(exitCodes.network.status);
  const said = (await served.end()).stderr;
  expect(said.match(/^sluice: s3: list: S3 cannot be reached \(ECONNREFUSED\)$/gm)).toHaveLength(1);
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
