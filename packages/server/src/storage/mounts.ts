import { SluiceError, type Principal } from "@sluice/core";
import type { UriMapper } from "@sluice/storage";
import { quoteKey } from "@sluice/storage/plugin";
import { prefixIn, type Mount } from "./mount.ts";

/** A resource: the mount that has it, and its key there. */
export interface Place {
  readonly mount: Mount;
  readonly key: string;
  /** Names the resource in tokens and for revocation: the key after the prefix of the mount. */
  readonly name: string;
}

/** A provider among the mounts. */
export interface ProviderMount extends Mount {
  /** True for the canonical URI of a resource that it makes. */
  readonly isFor: (canonicalUri: string) => boolean;
}

/** All that one Sluice serves. */
export class Mounts {
  readonly storages: readonly Mount[];
  /** Every caller has every storage. */
  readonly areForAll: boolean;
  /** Those for one URI come first: a template that also matches it must not answer for it. */
  #providers: readonly ProviderMount[] = [];
  #all: readonly Mount[];
  readonly #byPrefix: Map<string, Mount>;
  readonly #storageMountOf: (uri: string) => Mount | undefined;

  /** Puts storages together. A base below another one, or that cannot be told from another one, is a `TypeError`. */
  constructor(storages: readonly Mount[]) {
    ensureApart(storages);
    this.storages = storages;
    this.areForAll = storages.every(({ isForAll }) => isForAll);
    this.#all = storages;
    this.#byPrefix = new Map(storages.map((mount) => [mount.namePrefix, mount]));
    this.#storageMountOf = finderOf(storages);
  }

  /** Providers and then storages: the order of the lists. */
  get all(): readonly Mount[] {
    return this.#all;
  }

  /** Adds a provider. Throws a `TypeError` for one whose URI or template is there already. */
  add(provider: ProviderMount): void {
    if (this.#byPrefix.has(provider.namePrefix))
      throw new TypeError(
        `sluice.provide: there is a provider for ${provider.template?.uriTemplate ?? provider.mapper.baseUri} already`,
      );
    this.#byPrefix.set(provider.namePrefix, provider);
    this.#providers = [...this.#providers, provider].toSorted(
      (a, b) => Number(a.template !== undefined) - Number(b.template !== undefined),
    );
    this.#all = [...this.#providers, ...this.storages];
  }

  /** True for a URI of a provider or below one of the bases; it may be malformed. */
  covers(uri: string): boolean {
    return this.#storageMountOf(uri) !== undefined || this.#providerPlace(uri) !== undefined;
  }

  /**
   * The resource of a URI: of a provider that makes it, else of the storage whose base the URI begins with. Throws
   * `not_found` for a URI outside of all, and `invalid_argument` for a malformed one below a base.
   */
  placeOf(uri: string): Place {
    return this.#find(uri, () => true);
  }

  /** The same for a caller: a mount that the principal does not have is treated as if it were not configured. */
  placeFor(uri: string, principal: Principal | undefined): Place {
    return this.#find(uri, (storage) => isThereFor(storage, principal));
  }

  /** The provider that makes the resource of a URI, else the storage whose base the URI begins with. */
  mountOf(uri: string): Mount | undefined {
    return this.#providerPlace(uri)?.mount ?? this.#storageMountOf(uri);
  }

  /** The resource of a name. Throws `not_found` for one of a mount that is not there. */
  placeNamed(name: string): Place {
    const prefix = prefixIn(name);
    const mount = this.#byPrefix.get(prefix);
    if (!mount) throw new SluiceError("not_found", "sluice: the mount of the resource is gone");
    return { mount, key: name.slice(prefix.length), name };
  }

  #find(uri: string, isThere: (storage: Mount) => boolean): Place {
    const place = this.#providerPlace(uri);
    if (place) return place;
    const mount = this.#storageMountOf(uri);
    if (!mount || !isThere(mount)) throw notBelow(uri, this.storages);
    return placeIn(mount, mount.mapper.toKey(uri));
  }

  #providerPlace(uri: string): Place | undefined {
    for (const mount of this.#providers) {
      const { mapper, isFor } = mount;
      const key = uri.startsWith(mapper.baseUri) ? legalKey(mapper, uri) : undefined;
      if (key !== undefined && isFor(mapper.toUri(key))) return placeIn(mount, key);
    }
    return undefined;
  }
}

/**
 * Finds the mount whose base a URI begins with. One look for each slash of the URI as far as bases reach: lists of URIs
 * that clients send are long, and so may be the list of mounts.
 */
function finderOf(mounts: readonly Mount[]): (uri: string) => Mount | undefined {
  const byBase = new Map(mounts.map((mount) => [mount.mapper.baseUri, mount]));
  const longest = Math.max(...[...byBase.keys()].map(({ length }) => length));
  return (uri) => {
    if (typeof uri !== "string") return undefined;
    const start = uri.slice(0, longest);
    for (let at = start.indexOf("/"); at >= 0; at = start.indexOf("/", at + 1)) {
      const mount = byBase.get(start.slice(0, at + 1));
      if (mount) return mount;
    }
    return undefined;
  };
}

/** True for a mount that a principal has. */
export function isThereFor(
  { isForAll, storageAccess }: Mount,
  principal: Principal | undefined,
): boolean {
  return isForAll || storageAccess.backendFor(principal) !== undefined;
}

function placeIn(mount: Mount, key: string): Place {
  return { mount, key, name: mount.namePrefix + key };
}

/** The key of a URI below a base; `undefined` if it is malformed. */
function legalKey(mapper: UriMapper, uri: string): string | undefined {
  try {
    return mapper.toKey(uri);
  } catch {
    return undefined;
  }
}

function notBelow(uri: string, all: readonly Mount[]): SluiceError {
  const bases = all.map(({ mapper }) => mapper.baseUri);
  const where = bases.length === 1 ? bases[0] : `one of ${bases.length} base URIs`;
  return new SluiceError("not_found", `sluice: resource ${quoteKey(uri)}: is not below ${where}`);
}

function ensureApart(all: readonly Mount[]): void {
  if (all.length === 0) throw new TypeError("createSluice: mounts is empty; name one storage");
  const sorted = all.map(({ mapper }) => mapper.baseUri).toSorted();
  for (const [at, base] of sorted.entries()) {
    const next = sorted[at + 1];
    if (next?.startsWith(base))
      throw new TypeError(
        `createSluice: mounts: ${next} ${next === base ? "is there twice" : `lies below ${base}`}; give each storage a base URI of its own`,
      );
  }
  if (new Set(all.map(({ namePrefix }) => namePrefix)).size < all.length)
    throw new TypeError(
      "createSluice: mounts: two base URIs have the same tag in tokens; change a letter of one",
    );
}
