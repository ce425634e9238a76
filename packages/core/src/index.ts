export { SluiceError, type SluiceErrorCode, type SluiceErrorOptions } from "./errors/error.ts";
export type { ByteFlow, Lending, WriteChunk } from "./bytes/byte-flow.ts";
export type { ByteRange, FileRegion, Sink, Source } from "./bytes/source.ts";
export {
  createKeyRing,
  formatKey,
  generateKey,
  type KeyRing,
  type KeyRingInput,
  type KeyState,
  type SealingKey,
} from "./tokens/key-ring.ts";
export { type Principal, principalTag, resourceTag } from "./tokens/principal.ts";
export {
  createSealer,
  type IssuedToken,
  type OpenedToken,
  type Sealer,
  type SealerOptions,
  type TokenClaims,
} from "./tokens/sealed-token.ts";
export {
  type GrantUse,
  type TokenAuth,
  type TokenLifetime,
  tokenLifetimes,
  type TokenPurpose,
} from "./tokens/token-lifetime.ts";
export type { FetchLike } from "./wire/mcp.ts";
export type { Secret } from "./wire/secret.ts";
