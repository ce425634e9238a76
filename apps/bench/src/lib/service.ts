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
export function openBackend(
  service: Service,
  { writable = false }: { readonly writable?: boolean } = {},
): StorageBackend {
  if (service.kind === "s3") return createS3Backend({ ...service, writable });
  if (service.kind === "azure-blob") {
    const { url, account, key } = service;
    const credential = new StorageSharedKeyCredential(account, key);
    return createAzureBlobBackend({ url, credential, writable });
  }
  const { token, ...drive } = service;
  const credential = { getToken: async () => ({ token, expiresOnTimestamp: Infinity }) };
  return createGraphBackend({ ...drive, credential, writable });
}

/** The same service behind another origin. */
export function behind(service: Service, origin: string): Service {
  const moved = (url: string): string => url.replace(/^http:\/\/[^/]+/, origin);
  if (service.kind === "s3") return { ...service, endpoint: moved(service.endpoint) };
  if (service.kind === "azure-blob") return { ...service, url: moved(service.url) };
  return { ...service, baseUrl: moved(service.baseUrl) };
}

/** Where a service listens. */
export function originOf(service: Service): string {
  if (service.kind === "s3") return new URL(service.endpoint).origin;
  return new URL(service.kind === "azure-blob" ? service.url : service.baseUrl).origin;
}
