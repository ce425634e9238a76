import { SluiceError, type Principal } from "@sluice/core";
import { quoteKey } from "@sluice/storage/plugin";
import { prefixIn, type Mount } from "./mount.ts";

/** A resource: the mount that has it, and its key there. */
export interface Place {
  readonly mount: Mount;
  readonly key: string;
  /** Names the resource in tokens and for revocation: the key behind the prefix of the mount. */
  readonly name: string;
}

/** All that one Sluice serves. */
export interface Mounts {
  /** In the order of the lists. */
  readonly all: readonly Mount[];
  /** True for a URI below one of the bases; it may be malformed. */
  covers(uri: string): boolean;
  /** The resource of a URI. Throws `not_found` outside of the bases, and `invalid_argument` for a malformed URI below one. */
  find(uri: string): Place;
  /** The same for a caller: a mount that the principal does not have is as one that is not configured. */
  findFor(uri: string, principal: Principal | undefined): Place;
  /** The mount that a URI is below. */
  mountOf(uri: string): Mount | undefined;
  /** The resource of a name. Throws `not_found` for one of a mount that is not there. */
  named(name: string): Place;
}

/** Puts mounts together. A base below another one, or that cannot be told from another one, is a `TypeError`. */
export function createMounts(all: readonly Mount[]): Mounts {
  ensureApart(all);
  const byPrefix = new Map(all.map((mount) => [mount.namePrefix, mount]));
  const mountOf = (uri: string): Mount | undefined =>
    typeof uri === "string" ? all.find(({ mapper }) => uri.startsWith(mapper.baseUri)) : undefined;
  return {
    all,
    covers: (uri) => mountOf(uri) !== undefined,
    mountOf,
    find(uri) {
      const mount = mountOf(uri);
      if (!mount) throw notBelow(uri, all);
      return placeIn(mount, uri);
    },
    findFor(uri, principal) {
      const mount = mountOf(uri);
      if (!mount || !isThereFor(mount, principal)) throw notBelow(uri, all);
      return placeIn(mount, uri);
    },
    named(name) {
      const prefix = prefixIn(name);
      const mount = byPrefix.get(prefix);
      if (!mount) throw new SluiceError("not_found", "sluice: the mount of the resource is gone");
      return { mount, key: name.slice(prefix.length), name };
    },
  };
}

/** True for a mount that a principal has. */
export function isThereFor(
  { isForAll, storages }: Mount,
  principal: Principal | undefined,
): boolean {
  return isForAll || storages.of(principal) !== undefined;
}

function placeIn(mount: Mount, uri: string): Place {
  const key = mount.mapper.toKey(uri);
  return { mount, key, name: mount.namePrefix + key };
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
