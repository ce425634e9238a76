import { type ByteFlow, SluiceError } from "@sluice/core";
import { createFlowBody, createSha256, flowOf, type Sha256 } from "@sluice/core/internal";
import { type FindKept, type StorageBackend, withKept } from "../contract/backend.ts";
import { quoteKey } from "../contract/key.ts";
import { withBody } from "../contract/opened.ts";
import { holdLast } from "../plugin/body.ts";
import { wrapBackend } from "./wrap.ts";

/** Settings of {@link withDigestCheck}. */
export interface VerifyDigestOptions {
  /** Compare whole reads with the digest that storage knows. Default: true. */
  readonly verifyDigest?: boolean;
}

/**
 * Hashes whole objects whose SHA-256 is known while they are read, even across resumes. The last
 * chunk waits until the digest agrees; otherwise the body ends with `corrupt`. The `file` face of
 * such an object is dropped, because its bytes would not be hashed.
 */
export function withDigestCheck(
  backend: StorageBackend,
  options: VerifyDigestOptions = {},
): StorageBackend {
  if (options.verifyDigest === false) return backend;
  return wrapBackend(backend, {
    open: (open) => {
      const verified: StorageBackend["open"] = async (key, openOptions) => {
        const opened = await open(key, openOptions);
        const { sha256 } = opened.info.digests ?? {};
        if (sha256 === undefined || opened.range !== undefined) return opened;
        const operation = `${backend.name}: open ${quoteKey(key)}`;
        const { bytes } = opened;
        if (bytes !== undefined) {
          const hash = createSha256();
          hash.update(bytes);
          ensureDigest(hash, sha256, operation);
          return opened;
        }
        return withBody({ info: opened.info, validator: opened.validator }, () =>
          createFlowBody(hashedFlow(flowOf(opened.body), sha256, operation)),
        );
      };
      return withKept(verified, withoutDigest(open.inMemory));
    },
  });
}

/** An object with a digest is left to `open`, which compares it. */
function withoutDigest(find: FindKept | undefined): FindKept | undefined {
  if (!find) return undefined;
  return (key) => {
    const object = find(key);
    return object?.info.digests?.sha256 === undefined ? object : undefined;
  };
}

function hashedFlow(flow: ByteFlow, sha256: string, operation: string): ByteFlow {
  const hash = createSha256();
  const verify = async (): Promise<void> => ensureDigest(hash, sha256, operation);
  return holdLast(flow, verify, (chunk) => hash.update(chunk));
}

function ensureDigest(hash: Sha256, sha256: string, operation: string): void {
  if (hash.digest() !== sha256)
    throw new SluiceError("corrupt", `${operation}: the bytes do not have the promised digest`);
}
