import type { ScopeChallengeHandler } from "@modelcontextprotocol/server";
import type { KeyRing, KeyRingInput } from "@sluice/core";
import type { Stores } from "@sluice/state";
import type { ClientAddress, PrincipalResolver } from "../access/principal.ts";
import type { AuditInput } from "../audit/audit-options.ts";
import type { Telemetry } from "../audit/telemetry.ts";
import type { SluiceRates } from "../limits/rate-limits.ts";
import type { SluiceLimits } from "../limits/sluice-limits.ts";
import type {
  AccessRules,
  MountOptions,
  PrincipalStorage,
  ServingRules,
} from "../storage/mount.ts";
import type { GrantOptions, LinkRules, RevocableGrantOptions } from "../urls/grant-options.ts";

/** Keys that change where they are kept, such as those of `openKeyFile`. `close` of the Sluice closes them. */
export interface FollowedKeys {
  readonly keys: KeyRing;
  close(): void;
}

/** Where the bytes are: one storage, or several as mounts. */
type StorageChoice =
  | {
      /**
       * Where the bytes are: one backend for all, or the one of a principal (`undefined` for the anonymous). A principal for which
       * it gives `undefined` has no resources. Each backend is put behind `protect` of @sluice/storage; do that yourself to set its
       * options.
       */
      readonly storage?: PrincipalStorage;
      /** Base of the resource URIs, ending in `/`. Goes with `storage`. Default `files://local/`. */
      readonly baseUri?: string;
      readonly mounts?: never;
    }
  | {
      /** Several storages, each below its base URI, in the order of the lists; instead of `storage` and `baseUri`. */
      readonly mounts: readonly MountOptions[];
      readonly storage?: never;
      readonly baseUri?: never;
    };

/** Download URLs and links: what cannot be withdrawn makes no links. */
type UrlChoice =
  | {
      /** Download URLs: how often they work (default `window` when bound, `lease` otherwise) and how long. */
      readonly grant?: GrantOptions;
      readonly links?: false;
    }
  | {
      readonly grant?: RevocableGrantOptions;
      /**
       * Allows links: URLs below `<endpoint>/d/` that work in every browser and program without credentials, and act for the
       * principal that they were made for. Each redemption asks the access rules again, as that principal. `true` for links with
       * the defaults of {@link LinkRules}. Default: `true` at a loopback endpoint, else `false`.
       */
      readonly links?: LinkRules | boolean;
    };

/** What every Sluice may be told, whatever it serves. */
interface SluiceSettings extends ServingRules {
  /**
   * Public URL of the MCP endpoint; over WebSocket, that of the HTTP side beside it. Download URLs
   * are `<endpoint>/streams/<token>`, and tokens are good for this endpoint only. Always taken from
   * here, never from a `Host` header. `https:`, or `http:` on a loopback address. Slashes at its end are taken off:
   * the endpoint answers at `/mcp` and not at `/mcp/`. Throws a `TypeError` for a path with empty segments, `%2e`, `%2f` or `%5c`.
   * Default `http://127.0.0.1:2532/mcp`.
   */
  readonly endpoint?: string;
  /**
   * Keys that seal the download tokens: a ring, its text, its keys, or a file of them (`openKeyFile`). `"ephemeral"` makes one for
   * this process, with a warning: it fits a server that is a single process and whose URLs may die with it.
   * With stores that processes share it is a `TypeError`. Default at a loopback endpoint: `"ephemeral"`, without the
   * warning; at a public one there is none, and a Sluice without keys is a `TypeError`.
   */
  readonly keys?: KeyRing | KeyRingInput | FollowedKeys;
  /**
   * What must be shared between processes, also for uploads and resumable streams: `createRedisStores` of
   * @sluice/state-redis. Default: this process's memory, `createMemoryStores()`.
   */
  readonly stores?: Stores;
  /**
   * Gives the principal of a caller. Without it, download URLs are bound to the bearer token itself; on a
   * loopback endpoint to the session. A public endpoint has it, or `anonymous: true`: without both it is a `TypeError`.
   */
  readonly principal?: PrincipalResolver;
  /**
   * Whether callers without a principal get download URLs too: self-authenticating ones, which
   * work for every client that has them. Default: only on a loopback endpoint without a principal resolver.
   */
  readonly anonymous?: boolean;
  /** Scopes that reading and streaming need, as in `registerResource` of the SDK. */
  readonly scopeChallenge?: ScopeChallengeHandler;
  /** URL of the protected resource metadata (RFC 9728), for the challenge of a 401 or 403. */
  readonly resourceMetadataUrl?: string;
  /** Download URLs send types that a browser may run, such as HTML, under their own name. Default false: as octets. */
  readonly exactTypes?: boolean;
  /**
   * Maximum resources in a page of `resources/list`; storage may have a lower bound of its own. Default 100. Version
   * 2 of the SDK's client takes 64 pages unless its `listMaxPages` says more.
   */
  readonly pageSize?: number;
  /**
   * How long clients of stateless revisions may keep what list, read and templates gave, and those of both
   * what a download URL says of its resource. Default 0: not at all.
   */
  readonly cacheTtlMs?: number;
  /**
   * How the address of a client is found, for `rates.failedRedemptions`, every `perAddress` of this Sluice and its transports,
   * and `addresses` of `audit`. A number: the trusted proxies in front, each of which appends to `X-Forwarded-For`. In Node,
   * over HTTP and WebSocket, the address is then read from that many hops of the field, and from nowhere else; a request that
   * bypasses the proxies can make it up. A function, where the transport does not know the address, as on Workers: read the
   * header that your CDN sets and clients cannot; `undefined` if it is not known. Default: 0, the address of the socket.
   */
  readonly clientAddress?: ClientAddress;
  /** Maximum streams and bytes of responses at once: `{ streams: { perPrincipal, perAddress, perProcess }, listeners, responseBytes }`. */
  readonly limits?: SluiceLimits;
  /** Maximum requests, bytes and failed redemptions in a window of time, by limiters. Default: only of failed redemptions. */
  readonly rates?: SluiceRates;
  /**
   * Gets one record for each call and redemption, but for refusals of callers that were not identified: of those it gets the first
   * ones and counts. With `required`, nothing leaves without a record: so it is with a file, unless it is passed as
   * `{ file, required: false }`.
   */
  readonly audit?: AuditInput;
  /** Traces and metrics: `createTelemetry()` of `@sluice/server/telemetry`. */
  readonly telemetry?: Telemetry;
  /** Gets faults that clients see only as `internal` or as a broken connection. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
  /**
   * Gets advice about the configuration, and of the first download URL that nothing in this process serves. Default:
   * `console.warn`.
   */
  readonly onWarning?: (message: string) => void;
}

/**
 * Options of `createSluice`: one `storage` below one `baseUri`, or `mounts`. An option that does not exist is a `TypeError`
 * that names the nearest one.
 */
export type SluiceOptions = StorageChoice & AccessRules & UrlChoice & SluiceSettings;
