/**
 * A site over a storage service, in a process of its own. Started with its settings as JSON, it tells
 * its parent the URL. Resources below `direct/`, `redirect/` and `downloadUrl/` travel in that mode.
 */
import type { DeliveryMode } from "@sluice/core/internal";
import type { StorageBackend } from "@sluice/storage";
import type { S3BackendOptions } from "@sluice/storage-s3";
import { startSite } from "../site.ts";
import { watchMemory } from "../watch.ts";

/** Which service, where, and with which credentials. */
export type ServeStorageSettings = { readonly redirectOrigin: string } & (
  | { readonly s3: S3BackendOptions }
  | { readonly azureBlob: { readonly connectionString: string; readonly container: string } }
  | {
      readonly graph: {
        readonly baseUrl: string;
        readonly driveId: string;
        readonly token: string;
      };
    }
);

const settings = JSON.parse(process.argv[2]!) as ServeStorageSettings;

/** Loads one plugin: the others would add to the memory of this process. */
async function open(): Promise<StorageBackend> {
  if ("s3" in settings) {
    const { createS3Backend } = await import("@sluice/storage-s3");
    return createS3Backend(settings.s3);
  }
  if ("azureBlob" in settings) {
    const { createAzureBlobBackend } = await import("@sluice/storage-azure-blob");
    return createAzureBlobBackend(settings.azureBlob);
  }
  const { createGraphBackend } = await import("@sluice/storage-graph");
  const { token, ...drive } = settings.graph;
  const expiresOnTimestamp = Date.now() + 3_600_000;
  return createGraphBackend({
    ...drive,
    credential: { getToken: async () => ({ token, expiresOnTimestamp }) },
  });
}

const site = await startSite({
  storage: open,
  sluice: {
    delivery: ({ info }) => info.key.split("/", 1)[0] as DeliveryMode,
    redirectOrigins: [settings.redirectOrigin],
  },
});

const memory = watchMemory();
process.on("message", () => process.send!(memory()));
process.on("disconnect", () => {
  void site[Symbol.asyncDispose]().then(() => process.exit(0));
});
process.send!({ url: site.url });
