import { StorageSharedKeyCredential } from "@azure/storage-blob";
import type { StorageBackend } from "@sluice/storage";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { createGraphBackend } from "@sluice/storage-graph";
import { createS3Backend } from "@sluice/storage-s3";

/** A storage service on this machine, and how to get in: what `storage-server` prints. */
export type Service =
  | {
      readonly kind: "s3";
      readonly bucket: string;
      readonly endpoint: string;
      readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
    }
  | {
      readonly kind: "azure-blob";
      readonly url: string;
      readonly account: string;
      readonly key: string;
    }
  | {
      readonly kind: "graph";
      readonly baseUrl: string;
      readonly driveId: string;
      readonly token: string;
    };

/** The plugin over it, as a server has it. */
export function openBackend(service: Service): StorageBackend {
  if (service.kind === "s3") return createS3Backend(service);
  if (service.kind === "azure-blob") {
    const { url, account, key } = service;
    const credential = new StorageSharedKeyCredential(account, key);
    return createAzureBlobBackend({ url, credential });
  }
  const { token, ...drive } = service;
  const credential = { getToken: async () => ({ token, expiresOnTimestamp: Infinity }) };
  return createGraphBackend({ ...drive, credential });
}
