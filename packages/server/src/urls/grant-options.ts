import { tokenLifetimes, type GrantUse } from "@sluice/core";

/** Settings of download URLs that can be withdrawn. */
export interface RevocableGrantOptions {
  readonly use?: GrantUse;
  /**
   * Life in milliseconds. Default 5 minutes when bound and 1 minute otherwise; at most 60 and 15
   * minutes, and never longer than the access token.
   */
  readonly ttlMs?: number;
  /**
   * - `sealed`, the default: the URL itself carries what it permits, sealed under `keys`. No state is kept of it.
   * - `stored`: the URL is a random id, and what it permits is kept in `state` until it ends, sealed too. Nothing is
   *   encoded in the URL; making and opening one takes the store.
   */
  readonly tokens?: TokenForm;
  readonly revocable?: true;
}

/** Settings of download URLs that need no store. */
interface FixedGrantOptions {
  readonly use?: "window";
  readonly ttlMs?: number;
  readonly tokens?: "sealed";
  /**
   * Whether download URLs can be withdrawn, and end with their session. Default true: each redemption asks the state store. With
   * false, bound `window` URLs work without it, and end by their time, their key and the access rules only. Not with
   * `stored`, `once` or `lease`, which need the store, nor with `links`.
   */
  readonly revocable: false;
}

/** Settings of download URLs. */
export type GrantOptions = RevocableGrantOptions | FixedGrantOptions;

/** Settings of links: URLs that work without credentials, and act for the principal that they were made for. */
export interface LinkRules {
  /** Life in milliseconds. Default and maximum: 15 minutes; never longer than the access token of the caller. */
  readonly ttlMs?: number;
  /** `window`, the default: any number of requests, which readers that seek need. `once`: one response with bytes. */
  readonly use?: LinkUse;
  /**
   * - `stored`: the token has 32 characters, and what it permits is kept in `state` until it ends, sealed. The default where
   *   `state` is given, and with `"ephemeral"` keys.
   * - `sealed`: the token carries what it permits, in some 250 characters and more. The default elsewhere.
   */
  readonly tokens?: TokenForm;
}

export type LinkUse = "window" | "once";

/** How a browser treats the bytes: it saves them, or shows them where it can. */
export type LinkDisposition = "attachment" | "inline";

/** Where what a token permits is kept: in the state store, or in the token itself. */
export type TokenForm = "stored" | "sealed";

/** What a link is for. */
export interface LinkTerms {
  /** Of the resource, as tokens have it. */
  readonly name: string;
  /** Of the version that it is for; `undefined` if storage names none. */
  readonly etag: string | undefined;
  readonly use?: LinkUse | undefined;
  readonly ttlMs?: number | undefined;
  /** Default `attachment`. */
  readonly disposition?: LinkDisposition | undefined;
}

/** Throws a `TypeError` or `RangeError` for download URLs that cannot be. */
export function ensureGrantOptions({
  ttlMs,
  use = "window",
  tokens = "sealed",
  revocable = true,
}: GrantOptions): void {
  const { maxTtlMs } = tokenLifetimes.download.bound;
  if (ttlMs !== undefined && !(ttlMs >= 1_000 && ttlMs <= maxTtlMs))
    throw new RangeError(`createSluice: grant.ttlMs must be from 1000 to ${maxTtlMs}`);
  if (!["window", "once", "lease"].includes(use))
    throw new TypeError('createSluice: grant.use is "window", "once" or "lease"');
  if (tokens !== "sealed" && tokens !== "stored")
    throw new TypeError('createSluice: grant.tokens is "sealed" or "stored"');
  if (typeof revocable !== "boolean")
    throw new TypeError("createSluice: grant.revocable is true or false");
  if (!revocable && (tokens === "stored" || use !== "window"))
    throw new TypeError(
      "createSluice: grant.revocable: false is for URLs that need no store; leave out " +
        (tokens === "stored" ? 'tokens: "stored"' : `use: "${use}"`),
    );
}

/** Throws a `RangeError` or `TypeError` for a life or a use that no link can have. */
export function ensureLinkRules({ ttlMs, use = "window" }: Pick<LinkRules, "ttlMs" | "use">): void {
  const { maxTtlMs } = tokenLifetimes.link.self;
  // written so that NaN fails it
  if (ttlMs !== undefined && !(ttlMs >= 1_000 && ttlMs <= maxTtlMs))
    throw new RangeError(`sluice: the ttlMs of links is a number from 1000 to ${maxTtlMs}`);
  if (use !== "window" && use !== "once")
    throw new TypeError('sluice: the use of links is "window" or "once"');
}
