import {
  BlobServiceClient,
  type ContainerClient,
  type ServiceGetUserDelegationKeyResponse,
} from "@azure/storage-blob";
import { SluiceError } from "@sluice/core";
import { pipelineOf } from "./container.ts";
import { request } from "./request.ts";

const dayMs = 24 * 3_600_000;
/** The longest life that the service gives a key. */
const longestMs = 7 * dayMs;
/** Back-dated, like the URLs: a URL may not be valid before its key. */
const backdatedMs = 15 * 60_000;
const timeoutMs = 30_000;
/** When the service gives no new key, it is asked again after so long; till then the last one signs. */
const pauseMs = 60_000;

type Key = ServiceGetUserDelegationKeyResponse;

/** Keys that the service makes for a token credential, to sign URLs with. */
export interface DelegationKeys {
  /** The present key. A new one is fetched when half of the life of the last one has passed. */
  get(now: number): Promise<Key>;
}

/**
 * Keeps one key for all callers. Fetching it has a deadline and no signal: when one caller aborts,
 * the others still get the key of the current request.
 */
export function createDelegationKeys(container: ContainerClient): DelegationKeys {
  const operation = "azure-blob: presign";
  const accountUrl = container.url.slice(0, container.url.lastIndexOf("/"));
  const service = new BlobServiceClient(accountUrl, pipelineOf(container));
  let key: Promise<Key> | undefined;
  let last: Key | undefined;
  let renewAt = Infinity;

  const fetchKey = async (now: number): Promise<Key> => {
    const startsOn = new Date(now - backdatedMs);
    const expiresOn = new Date(startsOn.getTime() + longestMs);
    try {
      const fresh = await request({ operation, timeoutMs }, (abortSignal) =>
        service.getUserDelegationKey(startsOn, expiresOn, { abortSignal }),
      );
      renewAt = (now + fresh.signedExpiresOn.getTime()) / 2;
      last = fresh;
      return fresh;
    } catch (error) {
      if (last !== undefined && now + pauseMs < last.signedExpiresOn.getTime()) {
        renewAt = now + pauseMs;
        return last;
      }
      key = undefined;
      if (!SluiceError.is(error) || error.code !== "permission_denied") throw error;
      // the operator has to act, whichever caller asked for the URL
      throw new SluiceError(
        "unauthenticated",
        `${operation}: the credential may not get a key to sign with; give it the role "Storage Blob Delegator"`,
        { cause: error.cause },
      );
    }
  };

  return {
    async get(now) {
      if (key === undefined || now >= renewAt) {
        renewAt = Infinity;
        key = fetchKey(now);
      }
      return key;
    },
  };
}
