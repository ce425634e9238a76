import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StorageBackend } from "@sluice/storage";
import { startGraphEmulator } from "@sluice/graph-emulator";
import { afterEach, describe, expect, test, vi } from "vitest";
import { sharedAzurite } from "../../storage-azure-blob/test/azurite.ts";
import { startS3StandIn } from "../../storage-s3/test/stand-in/stand-in.ts";
import { openStorage } from "../src/storages/open-storage.ts";

const hello = Buffer.from("hello");

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Reads the one object that a test has put in. */
async function readHello(storage: StorageBackend): Promise<string> {
  const { objects } = await storage.list();
  expect(objects.map(({ key }) => key)).toEqual(["a.txt"]);
  const text = await new Response((await storage.open("a.txt")).body).text();
  await storage.close?.();
  return text;
}

describe("the setting leads to the bytes", () => {
  test("file:", async () => {
    const root = await mkdtemp(join(tmpdir(), "sluice-storages-"));
    await writeFile(join(root, "a.txt"), hello);
    expect(await readHello(await openStorage(`file:${root}`, {}))).toBe("hello");
    await rm(root, { recursive: true });
  });

  test("s3:, with what the SDK finds in the environment", async () => {
    await using s3 = await startS3StandIn();
    s3.put("demo/a.txt", hello);
    vi.stubEnv("AWS_ACCESS_KEY_ID", s3.credentials.accessKeyId);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", s3.credentials.secretAccessKey);
    const setting = `s3://${s3.bucket}/demo?region=${s3.region}&endpoint=${s3.endpoint}`;
    expect(await readHello(await openStorage(setting, {}))).toBe("hello");
  });

  test("azblob:, with a connection string", async () => {
    const azurite = await sharedAzurite();
    const { url, account, key } = azurite;
    const container = await azurite.createContainer();
    await container.getBlockBlobClient("demo/a.txt").upload(hello, hello.byteLength);
    const environment = {
      AZURE_STORAGE_CONNECTION_STRING: `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${key};BlobEndpoint=${url};`,
    };
    const setting = `azblob://${container.containerName}/demo`;
    expect(await readHello(await openStorage(setting, environment))).toBe("hello");
    await container.delete();
  });

  test("graph:, with a token", async () => {
    await using graph = await startGraphEmulator();
    graph.drive.put("demo/a.txt", hello);
    const environment = {
      GRAPH_ACCESS_TOKEN: (await graph.credential.getToken()).token,
      GRAPH_BASE_URL: graph.origins.graph,
    };
    const setting = `graph://${graph.drive.id}/demo`;
    expect(await readHello(await openStorage(setting, environment))).toBe("hello");
  });
});

describe("variables that are missing or wrong are named", () => {
  const account = { AZURE_STORAGE_ACCOUNT: "account" };
  test.each([
    ["azblob://files", {}, /AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT/],
    ["azblob://files", account, /AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN/],
    ["azblob://files", { AZURE_STORAGE_ACCOUNT: "evil.example/" }, /not an account name/],
    ["graph://drive", {}, /GRAPH_ACCESS_TOKEN/],
  ])("%s with %o", async (setting, environment, message) => {
    await expect(openStorage(setting, environment)).rejects.toThrow(message);
  });

  test("an account opens with its key or a SAS, and only the key can sign", async () => {
    const key = { ...account, AZURE_STORAGE_KEY: btoa("key") };
    const sas = { ...account, AZURE_STORAGE_SAS_TOKEN: "?sv=2026-01-01&sig=x" };
    expect(await openStorage("azblob://files/a", key)).toHaveProperty("presign");
    expect(await openStorage("azblob://files/a", sas)).not.toHaveProperty("presign");
  });
});
