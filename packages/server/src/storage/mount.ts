import type { ResourceTemplateType } from "@modelcontextprotocol/server";
import { resourceTag, type Principal } from "@sluice/core";
import { createUriMapper, type StorageBackend, type UriMapper } from "@sluice/storage";
import {
  createAccess,
  type Access,
  type AccessPageRule,
  type AccessRule,
} from "../access/access.ts";
import { createMountLimiter, type MountLimits } from "../limits/sluice-limits.ts";
import type { StreamLimiter } from "../limits/stream-limiter.ts";
import { createStorageAccess, describedAccess, type StorageAccess } from "./authorized-storage.ts";
import type { DeliveryPolicy, RedirectOrigins } from "./delivery-policy.ts";
import {
  createResourceEntries,
  type ResourceEntries,
  type DescribeResource,
} from "./resource-metadata.ts";

/** What each caller may do. A rule for pages needs one for single resources beside it. */
export type AccessRules =
  | {
      /**
       * Decides what a principal may do, also by its `scopes` and `claims`. Asked at list, read, subscribe and stream,
       * and again at each redemption. Default: everything is allowed. A mount's own rule replaces the Sluice's.
       */
      readonly access?: AccessRule;
      readonly accessPage?: never;
    }
  | {
      readonly access: AccessRule;
      /**
       * The same for a whole page of a list in one call. Without it `access` is asked for each entry, 16 at a time.
       * Also set `access`. A mount that sets either rule inherits neither from the Sluice.
       */
      readonly accessPage?: AccessPageRule;
    };

/** How the resources of a mount are served. */
export interface ServingRules {
  /**
   * How bytes travel: `"auto"`, `"direct"`, `"redirect"`, `"downloadUrl"`, or a function of `{ uri, info, mimeType, principal,
   * client }` that returns one of these. Default `"auto"`. A mode that is impossible for a resource gives way to a download URL.
   */
  readonly delivery?: DeliveryPolicy;
  /**
   * Where redirects may lead: `"storage"`, the origins of the URLs that the storage signs, if it knows them, as S3 and Azure do; or
   * exact origins, without a path or a slash at the end, such as `https://acme.s3.eu-west-1.amazonaws.com`. Default: nowhere.
   */
  readonly redirectOrigins?: RedirectOrigins;
  /**
   * What an author knows of a resource beside what storage knows: title, description, media type, audience, priority,
   * and whether it is streamed. Asked for every entry of a page, and once for a version in a read, link, stream or
   * download. It may take 10 s. If it fails, list entries lack what it would have said; reads, links, streams and
   * downloads fail.
   */
  readonly describe?: DescribeResource;
  /** Largest resource, and largest range of one, that `resources/read` puts into JSON, in bytes. Default 2 MiB. */
  readonly maxReadBytes?: number;
}

/** What a mount may decide for itself. Of a Sluice, these are the defaults of its mounts. */
export type MountRules = ServingRules & AccessRules;

/** What a mount is. */
interface MountPlace {
  /** Base of its resource URIs, ending in `/`, such as `files://demo/`. No mount lies below another one. */
  readonly baseUri: string;
  /**
   * Where the bytes are: one backend for all, or the one of a principal (`undefined` for the anonymous). A principal
   * for which it gives `undefined` has no such mount: nothing below the base exists for it.
   */
  readonly storage: PrincipalStorage;
  /** What clients may have of this mount at once, counted beside `limits` of the Sluice. Default: no limits of its own. */
  readonly limits?: MountLimits;
}

/** One storage below its base URI; what it leaves out is as the options of the Sluice say. */
export type MountOptions = MountPlace & MountRules;

/** One backend for all principals, or the one of each. */
export type PrincipalStorage =
  | StorageBackend
  | ((principal: Principal | undefined) => StorageBackend | undefined);

/** One storage below its base URI, or one provider, ready to serve. */
export interface Mount {
  readonly mapper: UriMapper;
  /** Its entry in lists of templates; absent if it is a provider for one URI. */
  readonly template: ResourceTemplateType | undefined;
  /** A storage, whose objects have lists, changes and completion, or a provider, which makes what is asked for. */
  readonly kind: "storage" | "provider";
  /** Every caller has it: its storage does not depend on the principal. */
  readonly isForAll: boolean;
  /** Begins the names of its resources in tokens; empty if a Sluice has the one storage. */
  readonly namePrefix: string;
  readonly access: Access;
  readonly storageAccess: StorageAccess;
  readonly entries: ResourceEntries;
  readonly delivery: DeliveryPolicy;
  readonly redirectOrigins: RedirectOrigins;
  readonly maxReadBytes: number;
  /** Its own places among the streams, where it has limits. */
  readonly limiter: StreamLimiter | undefined;
}

/** What a mount is made with, beside its own options. */
export interface MountSetting {
  readonly namePrefix: string;
  readonly rules: MountRules;
  readonly onError: (error: unknown) => void;
}

/** Largest resource that `resources/read` puts into JSON, where no option says so. */
export const defaultMaxReadBytes: number = 2 * 1024 * 1024;

/** Hex digits of the tag in a name: few, for the length of a token grows with the name. */
const tagLength = 8;

/** The prefix of a name; empty if it has none. */
export function prefixIn(name: string): string {
  return name.startsWith("/") ? name.slice(0, tagLength + 2) : "";
}

/** Begins the names of resources below a base. No key begins with a slash, so a name tells that it has a prefix. */
export function namePrefixOf(baseUri: string): string {
  return `/${resourceTag(baseUri).slice(0, tagLength)}/`;
}

/** True if either rule is set. Then both are taken from here, so that lists and reads follow the same rules. */
export function hasAccessRules(rules: AccessRules): boolean {
  return rules.access !== undefined || rules.accessPage !== undefined;
}

/** Makes a mount; its own options come before the `rules` of the Sluice. */
export function storageMount(
  options: MountOptions,
  { namePrefix, rules, onError }: MountSetting,
): Mount {
  const { access: rule, accessPage } = hasAccessRules(options) ? options : rules;
  const mapper = createUriMapper(options.baseUri);
  const access = createAccess(rule, accessPage);
  const describe = options.describe ?? rules.describe;
  const entries = createResourceEntries({ mapper, describe, onError });
  const { about } = entries;
  const storageAccess = createStorageAccess({ storage: options.storage, access, mapper });
  const { baseUri, template } = mapper;
  return {
    mapper,
    template: {
      name: baseUri,
      uriTemplate: template,
      description: `Any resource below ${baseUri} by its path`,
    },
    kind: "storage",
    isForAll: typeof options.storage !== "function",
    namePrefix,
    access,
    storageAccess: about ? describedAccess(storageAccess, about) : storageAccess,
    entries,
    delivery: options.delivery ?? rules.delivery ?? "auto",
    redirectOrigins: options.redirectOrigins ?? rules.redirectOrigins ?? [],
    maxReadBytes: options.maxReadBytes ?? rules.maxReadBytes ?? defaultMaxReadBytes,
    limiter: options.limits && createMountLimiter(options.limits),
  };
}
