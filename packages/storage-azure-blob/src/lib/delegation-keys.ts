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

const operation = "azure-blob: presign";

type Key = ServiceGetUserDelegationKeyResponse;

/**
 * Keys that the service makes for a token credential, to sign URLs with: one at a time, for all callers. Fetching it
 * has a deadline and no signal: when one caller aborts, the others still get the key of the current request.
 */
export class DelegationKeys {
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
    const startsOn = new Date(now - backdatedMs);
    const expiresOn = new Date(startsOn.getTime() + longestMs);
    try {
      const fresh = await request({ operation, timeoutMs }, (abortSignal) =>
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
        `${operation}: the credential may not get a key to sign with; give it the role "Storage Blob Delegator"`,
        { cause: error.cause },
      );
    }
  }
}
