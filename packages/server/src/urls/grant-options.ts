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
  /**
   * Life in milliseconds, where `sluice.link` is not told. Default: 15 minutes, or `maxTtlMs` if that is less. Never longer than
   * the access token of the caller.
   */
  readonly ttlMs?: number;
  /**
   * Longest life that `sluice.link` may be told, in milliseconds. Default: 15 minutes; at most 7 days. A link acts with the scopes
   * and claims of the time that it was made. Beyond 15 minutes sealed tokens need `stores` that outlast the process, which
   * remember what was withdrawn, and a key stays in the ring for as long.
   */
  readonly maxTtlMs?: number;
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

/** Longest life of a link where its author says nothing, in milliseconds. */
const usualTtlMs = tokenLifetimes.link.self.ttlMs;

/** Throws a `RangeError` or `TypeError` for links that cannot be, or that could come back to life. */
export function ensureLinkRules(
  rules: LinkRules,
  { tokens, isShared }: { readonly tokens: TokenForm; readonly isShared: boolean },
): void {
  const { maxTtlMs = usualTtlMs } = rules;
  ensureTtl("createSluice: links.maxTtlMs", maxTtlMs, tokenLifetimes.link.self.maxTtlMs);
  ensureLinkTerms(rules, rules);
  if (maxTtlMs > usualTtlMs && tokens === "sealed" && !isShared)
    throw new TypeError(
      "createSluice: sealed links of more than 15 minutes would outlast what this process remembers of those that were withdrawn: " +
        'pass stores that outlast it, such as createRedisStores, or links.tokens: "stored"',
    );
}

/** Throws a `RangeError` or `TypeError` for a life or a use that no link of these rules can have. */
export function ensureLinkTerms(
  { ttlMs, use = "window" }: Pick<LinkRules, "ttlMs" | "use">,
  { maxTtlMs = usualTtlMs }: Pick<LinkRules, "maxTtlMs">,
): void {
  if (ttlMs !== undefined)
    ensureTtl("sluice: the ttlMs of links", ttlMs, maxTtlMs, "; links.maxTtlMs is its bound");
  if (use !== "window" && use !== "once")
    throw new TypeError('sluice: the use of links is "window" or "once"');
}

/** Life of a link that is not told its own, in milliseconds. */
export function usualLinkTtlMs({ ttlMs, maxTtlMs = usualTtlMs }: LinkRules): number {
  return ttlMs ?? Math.min(usualTtlMs, maxTtlMs);
}

function ensureTtl(name: string, ttlMs: number, maxTtlMs: number, advice = ""): void {
  // written so that NaN fails it
  if (!(ttlMs >= 1_000 && ttlMs <= maxTtlMs))
    throw new RangeError(`${name} is a number from 1000 to ${maxTtlMs}${advice}`);
}
