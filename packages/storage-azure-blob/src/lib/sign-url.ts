import {
  BlobSASPermissions,
  type BlobSASSignatureValues,
  BlobServiceClient,
  type ContainerClient,
  generateBlobSASQueryParameters,
  SASProtocol,
  type SASQueryParameters,
  type ServiceGetUserDelegationKeyResponse,
  StorageSharedKeyCredential,
} from "@azure/storage-blob";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { PresignedUrl, PresignOptions } from "@sluice/storage";
import { beginCall, type BlobRoot, callAzure } from "./blob-call.ts";
import { pipelineOf } from "./container.ts";

/** URLs are back-dated by this much, because the service's clock may be behind ours. */
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
    const { expiresMs, sign } = await callAzure({ operation, signal }, () => getSigner(now));
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
    // `blob.url` is encoded already; joining as text keeps it from being encoded twice
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

const dayMs = 24 * 3_600_000;
/** The longest life that the service gives a key. */
const longestMs = 7 * dayMs;
const timeoutMs = 30_000;
/** How long to wait before asking again after a key could not be fetched. The last key signs in the meantime. */
const pauseMs = 60_000;

const presignOperation = "azure-blob: presign";

type Key = ServiceGetUserDelegationKeyResponse;

/**
 * Keys that the service makes for a token credential, to sign URLs with: one at a time, for all callers. Fetching it
 * has a deadline and no signal: when one caller aborts, the others still get the key of the current request.
 */
class DelegationKeys {
  readonly #service: BlobServiceClient;
  #key: Promise<Key> | undefined;
  #last: Key | undefined;
  #renewAt = Infinity;

  constructor(container: ContainerClient) {
    const accountUrl = container.url.slice(0, container.url.lastIndexOf("/"));
    this.#service = new BlobServiceClient(accountUrl, pipelineOf(container));
  }

  /** The present key. A new one is fetched when half of the life of the last one has passed. */
  async get(now: number): Promise<Key> {
    if (this.#key === undefined || now >= this.#renewAt) {
      this.#renewAt = Infinity;
      this.#key = this.#fetch(now);
    }
    return this.#key;
  }

  async #fetch(now: number): Promise<Key> {
    // a URL may not be valid before its key
    const startsOn = new Date(now - backdatedMs);
    const expiresOn = new Date(startsOn.getTime() + longestMs);
    try {
      const fresh = await callAzure({ operation: presignOperation, timeoutMs }, (abortSignal) =>
        this.#service.getUserDelegationKey(startsOn, expiresOn, { abortSignal }),
      );
      this.#renewAt = (now + fresh.signedExpiresOn.getTime()) / 2;
      this.#last = fresh;
      return fresh;
    } catch (error) {
      if (this.#last !== undefined && now + pauseMs < this.#last.signedExpiresOn.getTime()) {
        this.#renewAt = now + pauseMs;
        return this.#last;
      }
      this.#key = undefined;
      if (!SluiceError.is(error) || error.code !== "permission_denied") throw error;
      // the operator has to act, whichever caller asked for the URL
      throw new SluiceError(
        "unauthenticated",
        `${presignOperation}: the credential is not allowed to fetch a signing key; give it the role "Storage Blob Delegator"`,
        { cause: error.cause },
      );
    }
  }
}
