/** Purpose of a token. Each purpose has its own key, so no token passes for another purpose. */
export type TokenPurpose = "download" | "link" | "upload" | "resume" | "connect";

/** `bound`: only its principal may use it. `self`: every holder may. */
export type TokenAuth = "bound" | "self";

/**
 * How often a grant may be redeemed.
 * - `window`: any number of requests until it expires
 * - `once`: one body-bearing response
 * - `lease`: the first body-bearing request opens a lease; the same holder may read on, in any order, until the lease
 *   ends or its bytes are used up (`leaseAllowance` of @sluice/state)
 */
export type GrantUse = "window" | "once" | "lease";

/** Life of a token in milliseconds: what `seal` takes by default, and at most. */
export interface TokenLifetime {
  readonly ttlMs: number;
  readonly maxTtlMs: number;
}

/**
 * The longest life of a link, for authors that ask for it: S3 signs URLs for as long, and a key stays in the ring until
 * the last link that it sealed has ended.
 */
const maxLinkMs = 7 * 24 * 3_600_000;

/** How long tokens live, by purpose and auth. */
export const tokenLifetimes: Readonly<
  Record<TokenPurpose, Readonly<Record<TokenAuth, TokenLifetime>>>
> = {
  download: {
    bound: { ttlMs: 300_000, maxTtlMs: 3_600_000 },
    self: { ttlMs: 60_000, maxTtlMs: 900_000 },
  },
  link: {
    bound: { ttlMs: 900_000, maxTtlMs: maxLinkMs },
    self: { ttlMs: 900_000, maxTtlMs: maxLinkMs },
  },
  upload: {
    bound: { ttlMs: 900_000, maxTtlMs: 3_600_000 },
    self: { ttlMs: 60_000, maxTtlMs: 900_000 },
  },
  resume: {
    bound: { ttlMs: 300_000, maxTtlMs: 900_000 },
    self: { ttlMs: 60_000, maxTtlMs: 900_000 },
  },
  connect: {
    bound: { ttlMs: 30_000, maxTtlMs: 60_000 },
    self: { ttlMs: 30_000, maxTtlMs: 60_000 },
  },
};

/**
 * Clocks of one deployment may differ by this many milliseconds: a token expires that long after
 * `expiresAt`.
 */
export const clockSkewMs = 5_000;

/** True {@link clockSkewMs} after `expiresAt`, in unix milliseconds. */
export function isExpired(expiresAt: number, now: number): boolean {
  return now >= expiresAt + clockSkewMs;
}

/** Start and end of a new token in unix milliseconds, whole seconds; a `RangeError` out of bounds. */
export function mintTimes(
  purpose: TokenPurpose,
  auth: TokenAuth,
  now: number,
  ttlMs: number = tokenLifetimes[purpose][auth].ttlMs,
): { readonly issuedAt: number; readonly expiresAt: number } {
  ensureTime(now);
  const { maxTtlMs } = tokenLifetimes[purpose][auth];
  // written so that NaN fails it
  if (typeof ttlMs !== "number" || !(ttlMs >= 1_000 && ttlMs <= maxTtlMs))
    throw new RangeError(
      `token: ttlMs must be a number from 1000 to ${maxTtlMs} for a ${auth} ${purpose} token`,
    );
  const issuedAt = wholeSeconds(now);
  return { issuedAt, expiresAt: issuedAt + wholeSeconds(ttlMs) };
}

/**
 * True when a token may live from `issuedAt` to `expiresAt`; {@link isExpired} looks at the current
 * time.
 */
export function isLegalLifetime(
  purpose: TokenPurpose,
  auth: TokenAuth,
  { issuedAt, expiresAt }: { readonly issuedAt: number; readonly expiresAt: number },
): boolean {
  const ttlMs = expiresAt - issuedAt;
  return ttlMs > 0 && ttlMs <= tokenLifetimes[purpose][auth].maxTtlMs;
}

/** Throws unless `now` is unix milliseconds that the 32 bits of a token's times can hold. */
export function ensureTime(now: number): void {
  if (typeof now !== "number" || !(now >= 0 && now < 0xffff_0000 * 1_000))
    throw new RangeError("token: now must be unix milliseconds");
}

/** Throws unless the purpose is one of ours. */
export function ensurePurpose(purpose: TokenPurpose): void {
  if (!Object.hasOwn(tokenLifetimes, purpose))
    throw new TypeError('token: a purpose is "download", "link", "upload", "resume" or "connect"');
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1_000) * 1_000;
}
