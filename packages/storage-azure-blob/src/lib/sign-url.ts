import {
  BlobSASPermissions,
  type BlobSASSignatureValues,
  type ContainerClient,
  generateBlobSASQueryParameters,
  SASProtocol,
  type SASQueryParameters,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { definedMembers } from "@sluice/core/internal";
import type { PresignedUrl, PresignOptions } from "@sluice/storage";
import { beginCall, type BlobRoot } from "./container.ts";
import { DelegationKeys } from "./delegation-keys.ts";
import { request } from "./request.ts";

/** A URL is valid from so long ago: the clocks of the service may be behind ours. */
const backdatedMs = 15 * 60_000;

/** The signer, and until when it can sign. */
interface Signer {
  readonly expiresMs: number;
  readonly sign: (values: BlobSASSignatureValues) => SASQueryParameters;
}

/**
 * Makes URLs that read one blob. Signs with the account key (service SAS), or with a key that the service makes for a token
 * credential (user delegation SAS). `undefined` without either: a SAS cannot sign another one.
 */
export function urlSignerOf(
  root: BlobRoot,
): ((key: string, options: PresignOptions) => Promise<PresignedUrl>) | undefined {
  const { container } = root;
  const getSigner = findSigner(container);
  if (getSigner === undefined) return undefined;

  return async (key, options) => {
    const { expiresInMs, contentType, contentDisposition, signal } = options;
    const { operation, blob } = beginCall(root, "presign", key, options);
    const now = Date.now();
    const { expiresMs, sign } = await request({ operation, signal }, () => getSigner(now));
    // a SAS has whole seconds
    const expiresAt = Math.floor(Math.min(now + expiresInMs, expiresMs) / 1000) * 1000;
    const sas = sign({
      containerName: container.containerName,
      blobName: blob.name,
      permissions: BlobSASPermissions.parse("r"),
      startsOn: new Date(now - backdatedMs),
      expiresOn: new Date(expiresAt),
      ...definedMembers({
        protocol: container.url.startsWith("https:") ? SASProtocol.Https : undefined,
        contentType,
        contentDisposition,
      }),
    });
    // the client has encoded the name; joined as text, nothing encodes it again
    return { url: `${blob.url}?${sas.toString()}`, expiresAt };
  };
}

function findSigner(container: ContainerClient): ((now: number) => Promise<Signer>) | undefined {
  const { accountName, credential } = container;
  if (credential instanceof StorageSharedKeyCredential) {
    const sign: Signer["sign"] = (values) => generateBlobSASQueryParameters(values, credential);
    return async () => ({ expiresMs: Infinity, sign });
  }
  if (!("getToken" in credential)) return undefined;
  const keys = new DelegationKeys(container);
  return async (now) => {
    const key = await keys.get(now);
    return {
      expiresMs: key.signedExpiresOn.getTime(),
      sign: (values) => generateBlobSASQueryParameters(values, key, accountName),
    };
  };
}
