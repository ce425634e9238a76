import { SluiceError, type Principal } from "@sluice/core";
import {
  createSha256,
  type Deadline,
  definedMembers,
  onAbort,
  within,
} from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { beginOperation, type OperationOptions } from "@sluice/storage/plugin";
import { discardProvided, toSource } from "./provided-body.ts";
import type { ProviderRoute } from "./provider-route.ts";
import type { Provider, ProvideRequest, ProvidedInfo } from "./provider.ts";
import type { ProvidedSource, SourceTerms } from "./stream-source.ts";

const defaultIdleMs = 30_000;

/** A provider as one principal uses it. */
export interface ProviderUse {
  /** As `toProvider` checked it. */
  readonly provider: Provider;
  readonly route: ProviderRoute;
  readonly principal: Principal | undefined;
}

/** One call of a provider. Every wait in it ends with its signal, and after the provider's `idleMs`. */
export interface ProviderCall {
  /** Start of messages: `provider: open "2026.csv"`. */
  readonly operation: string;
  readonly signal: AbortSignal;
  readonly describe: () => Promise<ObjectInfo>;
  /** The bytes of what was described from an offset on, or from an earlier one: `start` tells. */
  readonly open: (
    described: ObjectInfo,
    offset: number,
  ) => Promise<ProvidedSource & { readonly start: number }>;
  /** Settles like `work`, or ends as every wait does. */
  readonly wait: <T>(work: Promise<T>) => Promise<T>;
  /** Ends the call and aborts its signal. Idempotent. */
  readonly end: (reason?: unknown) => void;
}

/** Begins a call about one key. Throws `not_found` for a key of no resource of the provider. */
export function beginCall(
  { provider, route, principal }: ProviderUse,
  { method, key }: { readonly method: "describe" | "open"; readonly key: string },
  options: OperationOptions = {},
): ProviderCall {
  const operation = beginOperation(`provider: ${method}`, key, options);
  const uri = route.mapper.toUri(key);
  const variables = route.match(uri);
  if (!variables) throw new SluiceError("not_found", `${operation}: no such resource`);

  const controller = new AbortController();
  const { signal } = controller;
  const removeListener = onAbort(options.signal, (reason) => controller.abort(reason));
  const { idleMs: timeoutMs = defaultIdleMs } = provider;
  const expired = (): SluiceError =>
    new SluiceError("timeout", `${operation}: nothing came for ${timeoutMs} ms`);
  const deadline: Deadline = { timeoutMs, expired, signal };
  const request: ProvideRequest = { uri, variables, principal, signal };

  return {
    operation,
    signal,
    async describe() {
      const description = toPromise(() => (provider.describe ? provider.describe(request) : {}));
      return toObjectInfo(provider, { key, uri }, await within(description, deadline));
    },
    async open(info, offset) {
      const { rewind } = provider;
      const start = typeof rewind === "function" ? offset : 0;
      const terms: SourceTerms = { operation, uri, info, start };
      const opening = toPromise(() =>
        start > 0 && typeof rewind === "function"
          ? rewind({ ...request, start })
          : provider.open(request),
      );
      const provided = await within(opening, deadline, (late) => discardProvided(late, terms));
      return { start, ...toSource(provided, terms) };
    },
    wait: (work) => within(work, deadline),
    end(reason) {
      removeListener();
      controller.abort(reason);
    },
  };
}

/** Also of a function that throws, or gives no promise. */
async function toPromise<T>(call: () => T | Promise<T>): Promise<T> {
  return call();
}

/** What a provider and its `describe` tell, as metadata of an object. Throws a `TypeError` for what makes no sense. */
function toObjectInfo(
  provider: Provider,
  { key, uri }: { readonly key: string; readonly uri: string },
  info: ProvidedInfo,
): ObjectInfo {
  ensureInfo(info, uri);
  const { size, version, lastModified, sha256, mimeType } = info;
  const isRepeatable = provider.rewind !== undefined && size !== undefined && version !== undefined;
  return {
    key,
    ...definedMembers({
      size,
      etag: isRepeatable ? etagOf(uri, version) : undefined,
      lastModified,
      contentType: mimeType ?? provider.mimeType,
      digests: sha256 === undefined ? undefined : { sha256: sha256.toLowerCase() },
    }),
  };
}

function ensureInfo(info: ProvidedInfo, uri: string): void {
  const complain = (finding: string): never => {
    throw new TypeError(`provider of ${uri}: describe ${finding}`);
  };
  if (typeof info !== "object" || info === null)
    complain("gave no object; throw a SluiceError of not_found if there is no such resource");
  const { size, version, lastModified, sha256, mimeType } = info;
  if (size !== undefined && !(Number.isSafeInteger(size) && size >= 0))
    complain(`gave a size that is not a number of bytes: ${String(size)}`);
  if (version !== undefined && (typeof version !== "string" || version === ""))
    complain("gave a version that is not text");
  if (mimeType !== undefined && typeof mimeType !== "string")
    complain("gave a mimeType that is not text");
  if (
    lastModified !== undefined &&
    !(lastModified instanceof Date && !Number.isNaN(lastModified.getTime()))
  )
    complain("gave a lastModified that is not a Date");
  if (sha256 !== undefined && !/^[0-9a-f]{64}$/i.test(sha256))
    complain("gave a sha256 that is not 64 hex digits");
}

/** Any version becomes a legal etag, and two resources never have the same one. */
function etagOf(uri: string, version: string): string {
  const hash = createSha256();
  hash.update(new TextEncoder().encode(JSON.stringify([uri, version])));
  return hash.digest();
}
