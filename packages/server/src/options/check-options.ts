import { createKeyRing, formatKey, generateKey, type KeyRing } from "@sluice/core";
import { isLoopbackHost } from "@sluice/core/internal";
import type { Stores } from "@sluice/state";
import type { Mount, MountOptions, PrincipalStorage } from "../storage/mount.ts";
import { unverifiedTtlMs, type ClientAddress } from "../access/principal.ts";
import type { LinkRules, TokenForm } from "../urls/grant-options.ts";
import type { FollowedKeys, SluiceOptions } from "./sluice-options.ts";

/** The storages that options name, each below its base URI. Throws a `TypeError` for what was left out. */
export function mountsIn(options: SluiceOptions): readonly MountOptions[] {
  const { storage, baseUri, mounts } = options;
  if (mounts && (storage !== undefined || baseUri !== undefined))
    throw new TypeError("createSluice: pass mounts, or storage and baseUri, and not both");
  if (mounts !== undefined && !Array.isArray(mounts))
    throw new TypeError("createSluice: mounts must be an array of { baseUri, storage }");
  const all: readonly Partial<MountOptions>[] = mounts ?? [
    { storage, baseUri: baseUri ?? "files://local/" },
  ];
  for (const [at, mount] of all.entries()) {
    const where = mounts ? `mounts[${at}].` : "";
    if (!isStorage(mount?.storage))
      throw new TypeError(
        `createSluice: ${where}storage must be a backend, such as createFsBackend({ root: "./files" })${mounts ? "" : "; or pass mounts"}`,
      );
    if (typeof mount.baseUri !== "string")
      throw new TypeError(
        `createSluice: ${where}baseUri must be the base URI of the resources, such as "files://demo/"`,
      );
  }
  return all as readonly MountOptions[];
}

function isStorage(storage: PrincipalStorage | undefined): boolean {
  return typeof storage === "function" || typeof storage?.open === "function";
}

/** The key ring that `keys` names; a `TypeError` for ephemeral keys with a store that processes share. */
export function readKeys(
  { keys, stores }: Pick<SluiceOptions, "keys" | "stores">,
  { isLoopback }: Endpoint,
  onWarning: (message: string) => void,
): KeyRing {
  if (keys === undefined && !isLoopback)
    throw new TypeError(
      "createSluice: keys is undefined; make a file of keys with `npx sluice keys new sluice.keys` and pass " +
        'keys: await openKeyFile({ path: "sluice.keys" }), which is in sluice/node and @sluice/server/node; ' +
        'or pass "ephemeral" for a single process',
    );
  if (keys === undefined || keys === "ephemeral") {
    // a store that does not say counts as shared
    const shared: unknown = stores ? stores.state.shared : false;
    if (shared !== false)
      throw new TypeError(
        "createSluice: ephemeral keys are for a single process, and these stores are shared by several; " +
          "make keys with `sluice keys new` and give every process the same",
      );
    if (keys) onWarning("ephemeral keys: download URLs end with this process and work in no other");
    return createKeyRing(formatKey(generateKey()));
  }
  if (areFollowed(keys)) return keys.keys;
  if (typeof keys === "object" && "derive" in keys) return keys;
  return createKeyRing(keys);
}

/** Tells a file of keys from a ring, and from a list. */
export function areFollowed(keys: SluiceOptions["keys"]): keys is FollowedKeys {
  return typeof keys === "object" && !Array.isArray(keys) && "close" in keys;
}

/** Throws a `TypeError` unless all stores are there. */
export function ensureStores(stores: Stores): void {
  const { state, uploads, events } = stores as Partial<Stores>;
  if (typeof state?.claim === "function" && uploads && events) return;
  throw new TypeError(
    "createSluice: stores must be { state, uploads, events }, which createRedisStores and createMemoryStores give; " +
      "of your own store and the others: { ...createMemoryStores(), state }",
  );
}

/**
 * Where links and slots keep what they permit. Stores that were not given are the memory of one process: only keys that no other
 * process has say that there is no other.
 */
export function usualTokens({ keys, stores }: Pick<SluiceOptions, "keys" | "stores">): TokenForm {
  return stores || keys === undefined || keys === "ephemeral" ? "stored" : "sealed";
}

/** The settings of links; `undefined` if there are none. Throws a `TypeError` if they could not be withdrawn. */
export function readLinks(
  { links, grant }: Pick<SluiceOptions, "links" | "grant">,
  { isLoopback }: Endpoint,
): LinkRules | undefined {
  const isRevocable = grant?.revocable !== false;
  const rules = links ?? (isLoopback && isRevocable);
  if (rules === false) return undefined;
  if (!isRevocable)
    throw new TypeError("createSluice: links can be withdrawn: leave out grant.revocable: false");
  return rules === true ? {} : rules;
}

/** Why `delivery: "redirect"` can never lead to a redirect. */
export function redirectWarning(
  { storage }: MountOptions,
  { mapper, delivery, redirectOrigins }: Mount,
): string | undefined {
  if (delivery !== "redirect") return undefined;
  const all = `every resource below ${mapper.baseUri} leaves by a download URL`;
  if (redirectOrigins.length === 0)
    return `delivery is "redirect" and redirectOrigins is empty: ${all}; pass "storage", or name the origins of your storage`;
  // the storage of a principal is not there yet
  if (typeof storage === "function") return undefined;
  if (storage.presign === undefined)
    return `delivery is "redirect" and the storage signs no URLs: ${all}`;
  if (redirectOrigins === "storage" && storage.presignOrigins === undefined)
    return `delivery is "redirect" and the storage does not know the origins of its URLs: ${all}; name them in redirectOrigins`;
  return undefined;
}

/** Throws a `TypeError` for a public endpoint whose callers nothing names, and that is not said to be for everyone. */
export function ensureGuarded(
  { principal, anonymous }: SluiceOptions,
  { isLoopback }: Endpoint,
): void {
  if (principal || isLoopback || anonymous === true) return;
  throw new TypeError(
    "createSluice: the endpoint is public and nothing says who its callers are: every client that reaches it could list and " +
      "read everything; verify access tokens in front of it and pass principal, or pass anonymous: true where everyone may read",
  );
}

/** The warning about access rules without a principal resolver. */
export function accessWarning({ access, mounts, principal }: SluiceOptions): string | undefined {
  if (principal || !(access ?? mounts?.some((mount) => mount.access))) return undefined;
  return "access rules without a principal resolver: any bearer token counts as somebody; pass principal to createSluice";
}

/** The warning about links whose life `links` extends in vain, since no principal resolver verifies whose they are. */
export function linkLifeWarning({ links, principal }: SluiceOptions): string | undefined {
  const { ttlMs = 0, maxTtlMs = 0 } = typeof links === "object" ? links : {};
  if (principal || Math.max(ttlMs, maxTtlMs) <= unverifiedTtlMs) return undefined;
  return "links without a principal resolver: those for a bearer token, or for a session, live at most 5 minutes whatever links.ttlMs says; pass principal to createSluice";
}

/** Throws a `RangeError` for an option that is not a whole number from `least`. */
export function ensureCount(name: string, value: number | undefined, least: number): void {
  if (value !== undefined && !(Number.isSafeInteger(value) && value >= least))
    throw new RangeError(`createSluice: ${name} must be a whole number from ${least}`);
}

/** Throws a `TypeError` or `RangeError` for anything but a number of proxies or a function. */
export function ensureClientAddress(clientAddress: ClientAddress): void {
  if (typeof clientAddress === "function") return;
  if (typeof clientAddress !== "number")
    throw new TypeError(
      "createSluice: clientAddress is the number of proxies in front, or a function of the caller that returns its address",
    );
  ensureCount("clientAddress", clientAddress, 0);
}

/** The endpoint, checked. */
export interface Endpoint {
  /** Without a slash at its end. */
  readonly url: string;
  readonly isLoopback: boolean;
}

/** Reads `endpoint`; a `TypeError` when it is no URL that download URLs can be made of. */
export function readEndpoint(endpoint = "http://127.0.0.1:2532/mcp"): Endpoint {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (!url || url.username || url.password || url.search || url.hash)
    throw new TypeError(
      "createSluice: endpoint must be the public URL of the MCP endpoint, without credentials, query and fragment",
    );
  if (/\/\/|%(?:2[ef]|5c)/i.test(url.pathname))
    throw new TypeError(
      "createSluice: the path of endpoint must have one spelling: no empty segments, and no %2e, %2f or %5c",
    );
  const isLoopback = isLoopbackHost(url.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback))
    throw new TypeError("createSluice: endpoint must be https, or http on a loopback address");
  return { url: url.href.replace(/\/$/, ""), isLoopback };
}

/** Every option of `createSluice`. */
export const sluiceOptions: Readonly<Record<keyof SluiceOptions, true>> = {
  access: true,
  accessPage: true,
  anonymous: true,
  audit: true,
  baseUri: true,
  cacheTtlMs: true,
  clientAddress: true,
  delivery: true,
  describe: true,
  endpoint: true,
  exactTypes: true,
  grant: true,
  keys: true,
  limits: true,
  links: true,
  maxReadBytes: true,
  mounts: true,
  onError: true,
  onWarning: true,
  pageSize: true,
  principal: true,
  rates: true,
  redirectOrigins: true,
  resourceMetadataUrl: true,
  scopeChallenge: true,
  storage: true,
  stores: true,
  telemetry: true,
};
