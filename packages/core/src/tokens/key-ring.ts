import { bytesOfHex, decodeBase64Url, encodeBase64Url } from "../bytes/base64.ts";
import { hkdfSha256 } from "../bytes/hmac-sha256.ts";

/** `current` seals and unseals; `next` and `previous` only unseal. */
export type KeyState = "next" | "current" | "previous";

/** One secret key of a ring. */
export interface SealingKey {
  /** Name of the key in tokens: exactly two characters of `a`–`z`, `0`–`9`. */
  readonly kid: string;
  /** 32 random bytes. Hidden from `console.log` and JSON when `generateKey` or `parseKey` made it. */
  readonly key: Uint8Array;
  /** Default `current`. */
  readonly state?: KeyState;
}

/** Keys by name. It holds copies and shows none of them. */
export interface KeyRing {
  /** Name of the key that seals. */
  readonly current: string;
  /** Names of all keys, the newest state first. */
  readonly kids: readonly string[];
  /**
   * 32 bytes derived from the key `kid` for one purpose (HKDF-SHA256, RFC 5869), kept for the
   * next call; `undefined` for a name that is not in the ring.
   */
  derive(kid: string, info: string): Uint8Array | undefined;
  /** Puts other keys in the place of these, at once for every user of the ring: rotation without a restart. */
  replace(keys: KeyRingInput): void;
}

/** Keys, or their text form separated by commas, as in an environment variable. */
export type KeyRingInput = string | readonly SealingKey[];

/**
 * Makes a key ring. Exactly one key is `current`. Throws a `TypeError` for anything that is not 32 random-looking bytes
 * under a proper name. To rotate without refusing live tokens:
 * 1. publish the new key as `next` everywhere
 * 2. make it `current`, and the old one `previous`
 * 3. drop the old one after the longest token life
 */
export function createKeyRing(keys: KeyRingInput): KeyRing {
  let ring = readRing(keys);
  return Object.freeze({
    get current() {
      return ring.current;
    },
    get kids() {
      return [...ring.secrets.keys()];
    },
    derive(kid: string, info: string) {
      const { secrets, derived } = ring;
      const secret = secrets.get(kid);
      if (!secret) return undefined;
      const name = `${kid} ${info}`;
      let key = derived.get(name);
      if (!key) {
        key = hkdfSha256(secret, info);
        derived.set(name, key);
      }
      return key;
    },
    replace(other: KeyRingInput) {
      ring = readRing(other);
    },
  });
}

/** A new random key; default name `k1`, state `current`. Keep it with `formatKey`. */
export function generateKey(
  options: { readonly kid?: string; readonly state?: KeyState } = {},
): SealingKey {
  const key = crypto.getRandomValues(new Uint8Array(32));
  return hideKey(options.kid ?? "k1", key, options.state ?? "current");
}

/** The text form of a key, `kid:base64url` and `:state` unless it is current. It is the secret itself. */
export function formatKey(key: SealingKey): string {
  const state = key.state ?? "current";
  return `${key.kid}:${encodeBase64Url(key.key)}${state === "current" ? "" : `:${state}`}`;
}

/** Reads the text form of a key; a `TypeError` that does not repeat it when it is malformed. */
export function parseKey(text: string): SealingKey {
  const [kid = "", encoded = "", state = "current", ...rest] = text.trim().split(":");
  const key = decodeBase64Url(encoded);
  if (!key || rest.length > 0)
    throw new TypeError('key ring: a key is written "kid:base64url" or "kid:base64url:state"');
  return hideKey(kid, key, state as KeyState);
}

/** Own properties that nothing enumerates are not printed. */
function hideKey(kid: string, key: Uint8Array, state: KeyState): SealingKey {
  return Object.defineProperty({ kid, state }, "key", { value: key }) as SealingKey & {
    kid: string;
  };
}

interface Ring {
  readonly current: string;
  readonly secrets: ReadonlyMap<string, Uint8Array>;
  readonly derived: Map<string, Uint8Array>;
}

const order: readonly KeyState[] = ["next", "current", "previous"];

function readRing(input: KeyRingInput): Ring {
  const keys = typeof input === "string" ? input.split(",").map(parseKey) : [...input];
  const secrets = new Map<string, Uint8Array>();
  for (const state of order)
    for (const key of keys.filter((each) => (each.state ?? "current") === state)) {
      ensureKey(key);
      if (secrets.has(key.kid)) throw new TypeError(`key ring: two keys are named "${key.kid}"`);
      secrets.set(key.kid, Uint8Array.from(key.key));
    }
  if (secrets.size < keys.length)
    throw new TypeError('key ring: a state is "next", "current" or "previous"');
  const [current, ...others] = keys.filter((each) => (each.state ?? "current") === "current");
  if (!current || others.length > 0)
    throw new TypeError(
      "key ring: exactly one key must be current; mark the others next or previous",
    );
  return { current: current.kid, secrets, derived: new Map() };
}

function ensureKey({ kid, key }: SealingKey): void {
  if (typeof kid !== "string" || !/^[a-z0-9]{2}$/.test(kid))
    throw new TypeError(
      "key ring: a key is written kid:base64url, and its kid is exactly two characters of a-z and 0-9; make one with formatKey(generateKey())",
    );
  if (!(key instanceof Uint8Array) || key.length !== 32)
    throw new TypeError(
      `key ring: key "${kid}" must be exactly 32 bytes; make one with generateKey()`,
    );
  const weakness = keyWeakness(key);
  if (weakness !== undefined)
    throw new TypeError(`key ring: key "${kid}" ${weakness}; make one with generateKey()`);
}

/**
 * Says what shows that a key of 32 bytes is not random; `undefined` when nothing does. A truly
 * random key is refused less than once in 2^40.
 */
function keyWeakness(key: Uint8Array): string | undefined {
  if (hasConstantStep(key)) return "is one repeated byte or a simple sequence";
  if (isPeriodic(key)) return "repeats itself";
  if (new Set(key).size < 12) return "has too few different bytes";
  if (key.every((byte) => byte >= 0x20 && byte < 0x7f)) return "is text, not 32 random bytes";
  if (knownKeys.some((known) => known.every((byte, at) => byte === key[at])))
    return "is a published example";
  return undefined;
}

function hasConstantStep(key: Uint8Array): boolean {
  const step = (key[1]! - key[0]!) & 0xff;
  return key.every((byte, at) => at === 0 || ((byte - key[at - 1]!) & 0xff) === step);
}

function isPeriodic(key: Uint8Array): boolean {
  return [2, 4, 8, 16].some((period) => key.every((byte, at) => byte === key[at % period]));
}

// keys that stand in the documents people copy from: NIST SP 800-38A (AES-256), RFC 8032 (two), FIPS 197 is a sequence
const knownKeys: readonly Uint8Array[] = [
  "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
  "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
  "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
].map(bytesOfHex);
