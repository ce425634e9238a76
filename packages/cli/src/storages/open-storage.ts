import { definedMembers } from "@sluice/core/internal";
import type { StorageBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { parseStorageUrl, plugins, type StorageUrl } from "./storage-url.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Opens the storage that a URL names, or the folder of a path: `file:`, `s3:`, `azblob:`, `graph:`. The plugin is
 * loaded only now, so that a server of files starts without the SDKs of clouds. Credentials come from `environment`.
 *
 * Throws a `TypeError` for an invalid URL, for a plugin that is not installed, and for a variable that is missing or
 * wrong; the first call tells whether the credentials are good. Rejects as `createFsBackend` for a folder.
 */
export async function openStorage(
  text: string,
  environment: Environment,
  { writable = false, appendOnly = [] }: OpenStorageOptions = {},
): Promise<StorageBackend> {
  const url = parseStorageUrl(text);
  if (url.kind === "file")
    return createFsBackend({
      ...url,
      writable,
      appendOnly: (key) => appendOnly.some((ending) => key.endsWith(ending)),
    });
  if (url.kind === "s3") {
    const s3 = import("@sluice/storage-s3");
    return (await loadPlugin(s3, plugins.s3)).createS3Backend({ ...url, writable });
  }
  if (url.kind === "azblob") return openAzureBlob(url, environment, writable);
  return openGraph(url, environment, writable);
}

interface OpenStorageOptions {
  /** The storage also writes and removes. Default: false. */
  readonly writable?: boolean;
  /** Endings of append-only files in a folder. Default: none. */
  readonly appendOnly?: readonly string[];
}

/** By the variables that Azure's own tools and the Go Cloud Development Kit read. */
async function openAzureBlob(
  { container, prefix }: StorageUrl & { kind: "azblob" },
  environment: Environment,
  writable: boolean,
): Promise<StorageBackend> {
  const place = accountIn(environment);
  const azure = import("@sluice/storage-azure-blob");
  const { createAzureBlobBackend } = await loadPlugin(azure, plugins.azblob);
  const options = { writable, ...definedMembers({ prefix }) };
  if ("connectionString" in place)
    return createAzureBlobBackend({ ...place, container, ...options });
  const { origin, sas } = place;
  return createAzureBlobBackend({ url: `${origin}/${container}?${sas}`, ...options });
}

/** An account with its key, or with a shared access signature. */
function accountIn(
  environment: Environment,
): { readonly connectionString: string } | { readonly origin: string; readonly sas: string } {
  const {
    AZURE_STORAGE_CONNECTION_STRING: connectionString,
    AZURE_STORAGE_ACCOUNT: account,
    AZURE_STORAGE_KEY: key,
    AZURE_STORAGE_SAS_TOKEN: sas,
  } = environment;
  if (connectionString) return { connectionString };
  if (!account)
    throw missing("AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT", "azblob:");
  if (!/^[a-z0-9]{3,24}$/.test(account))
    throw new TypeError(
      "AZURE_STORAGE_ACCOUNT is not an account name; write 3 to 24 lower-case letters and digits",
    );
  if (key && !/^[a-z0-9+/]+=*$/i.test(key))
    throw new TypeError("AZURE_STORAGE_KEY is not base64; copy it from the Azure portal");
  if (key)
    return {
      connectionString: `DefaultEndpointsProtocol=https;AccountName=${account};AccountKey=${key};EndpointSuffix=core.windows.net`,
    };
  if (!sas) throw missing("AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN", "azblob:");
  return { origin: `https://${account}.blob.core.windows.net`, sas: sas.replace(/^\?/, "") };
}

async function openGraph(
  { driveId, path }: StorageUrl & { kind: "graph" },
  environment: Environment,
  writable: boolean,
): Promise<StorageBackend> {
  const { GRAPH_ACCESS_TOKEN: token, GRAPH_BASE_URL: baseUrl } = environment;
  if (!token) throw missing("GRAPH_ACCESS_TOKEN", "graph:");
  const graph = import("@sluice/storage-graph");
  const { createGraphBackend } = await loadPlugin(graph, plugins.graph);
  // it cannot be renewed here, and is used until the service refuses it
  const credential = { getToken: async () => ({ token, expiresOnTimestamp: Infinity }) };
  return createGraphBackend({
    credential,
    driveId,
    writable,
    ...definedMembers({
      root: path === undefined ? undefined : { path },
      baseUrl: baseUrl || undefined,
    }),
  });
}

function missing(names: string, scheme: string): TypeError {
  return new TypeError(`a storage of ${scheme} has no credentials; set ${names}`);
}

/**
 * The module of a plugin that a storage URL names. Rejects with a `TypeError` that says what to install if it is
 * missing.
 */
export async function loadPlugin<Module>(
  loading: Promise<Module>,
  packageName: string,
): Promise<Module> {
  try {
    return await loading;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new TypeError(
      `this storage needs the package ${packageName}, which is not installed; npm install ${packageName}, or npx -p sluice -p ${packageName} sluice serve …`,
      { cause: error },
    );
  }
}
