import type { StorageBackend } from "@sluice/storage";
import { parseStorageSetting, type StorageSetting } from "./storage-setting.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Opens the storage that `SLUICE_STORAGE` names. The plugin is loaded only now, so that a server of
 * files starts without the SDKs of clouds. Throws a `TypeError` for a setting, or a variable of
 * credentials, that is missing or wrong; whether they are any good the first call will tell.
 */
export async function openStorage(text: string, environment: Environment): Promise<StorageBackend> {
  const setting = parseStorageSetting(text);
  if (setting.kind === "file") {
    const { createFsBackend } = await import("@sluice/storage-fs");
    return createFsBackend(setting);
  }
  if (setting.kind === "s3") {
    const { createS3Backend } = await import("@sluice/storage-s3");
    return createS3Backend(setting);
  }
  if (setting.kind === "azblob") return openAzureBlob(setting, environment);
  return openGraph(setting, environment);
}

/** By the variables that Azure's own tools and the Go Cloud Development Kit read. */
async function openAzureBlob(
  { container, prefix }: StorageSetting & { kind: "azblob" },
  environment: Environment,
): Promise<StorageBackend> {
  const {
    AZURE_STORAGE_CONNECTION_STRING: connectionString,
    AZURE_STORAGE_ACCOUNT: account,
    AZURE_STORAGE_KEY: key,
    AZURE_STORAGE_SAS_TOKEN: sas,
  } = environment;
  const { createAzureBlobBackend } = await import("@sluice/storage-azure-blob");
  const below = prefix === undefined ? {} : { prefix };
  if (connectionString) return createAzureBlobBackend({ connectionString, container, ...below });
  if (!account)
    throw missing("AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT", "azblob:");
  if (!/^[a-z0-9]{3,24}$/.test(account))
    throw new TypeError(
      "demo-server: AZURE_STORAGE_ACCOUNT is no name of an account: 3 to 24 lower-case letters and digits",
    );
  const url = `https://${account}.blob.core.windows.net/${container}`;
  if (key) {
    const { StorageSharedKeyCredential } = await import("@azure/storage-blob");
    const credential = new StorageSharedKeyCredential(account, key);
    return createAzureBlobBackend({ url, credential, ...below });
  }
  if (!sas) throw missing("AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN", "azblob:");
  return createAzureBlobBackend({ url: `${url}?${sas.replace(/^\?/, "")}`, ...below });
}

async function openGraph(
  { driveId, path }: StorageSetting & { kind: "graph" },
  environment: Environment,
): Promise<StorageBackend> {
  const { GRAPH_ACCESS_TOKEN: token, GRAPH_BASE_URL: baseUrl } = environment;
  if (!token) throw missing("GRAPH_ACCESS_TOKEN", "graph:");
  const { createGraphBackend } = await import("@sluice/storage-graph");
  // it cannot be renewed here, and is used until the service refuses it
  const credential = { getToken: async () => ({ token, expiresOnTimestamp: Infinity }) };
  return createGraphBackend({
    credential,
    driveId,
    ...(path !== undefined && { root: { path } }),
    ...(baseUrl && { baseUrl }),
  });
}

function missing(names: string, scheme: string): TypeError {
  return new TypeError(
    `demo-server: SLUICE_STORAGE is ${scheme}, which needs ${names} in the environment`,
  );
}
