import { BINARY_EXTENSION_ID, type BinaryMode, definedMembers } from "@sluice/core/internal";

/** Which end of a connection declares: the RFC has another field for each. */
export type BinaryRole = "server" | "client";

/** How chunks of large transfers may stand between other messages. Ours, not the RFC's. */
export interface Interleave {
  /** Bytes of one stream that the sender may send without further credit. */
  readonly windowBytes: number;
}

interface BinaryDeclaration {
  /** Modes that it can do; absent when it named none. */
  readonly modes?: readonly BinaryMode[];
  /** Bytes; absent when it names no limit. */
  readonly maxBinarySize?: number;
  readonly interleave?: Interleave;
}

/** The terms of both ends. */
export interface BinaryTerms {
  /** Bytes: the smaller of both limits. */
  readonly maxBinaryBytes: number;
  /** How the peer takes chunks; absent if it supports only whole transfers. */
  readonly interleave?: Interleave;
}

/** The abilities of an end here: the transport has one mode. */
export interface BinaryAbility {
  readonly mode: BinaryMode;
  /** Bytes. */
  readonly maxBinaryBytes: number;
  readonly interleave?: Interleave;
}

type Capabilities = Readonly<Record<string, unknown>>;

/**
 * Capabilities with binary transfer declared in them: the literal field of the RFC (§1), and the
 * same under the extension, since SDKs in the field drop fields that they do not know.
 */
export function declareBinary(
  capabilities: unknown,
  role: BinaryRole,
  { mode, maxBinaryBytes: maxBinarySize, interleave }: BinaryAbility,
): Capabilities {
  const before = isObject(capabilities) ? capabilities : {};
  const literal = {
    supported: true,
    maxBinarySize,
    ...(role === "server" ? { supportedModes: [mode] } : { preferredMode: mode }),
  };
  const extensions = isObject(before["extensions"]) ? before["extensions"] : {};
  return {
    ...before,
    binaryTransfer: literal,
    extensions: {
      ...extensions,
      [BINARY_EXTENSION_ID]: definedMembers({ ...literal, interleave }),
    },
  };
}

/**
 * The declaration in a set of capabilities: the extension first, the literal field second.
 * `undefined` when there is none, or none that makes sense: then everything stays base64.
 */
export function readDeclaration(capabilities: unknown): BinaryDeclaration | undefined {
  if (!isObject(capabilities)) return undefined;
  const { extensions, binaryTransfer } = capabilities;
  const declaration =
    (isObject(extensions) ? extensions[BINARY_EXTENSION_ID] : undefined) ?? binaryTransfer;
  if (!isObject(declaration) || declaration["supported"] !== true) return undefined;
  const { supportedModes, preferredMode, maxBinarySize, interleave } = declaration;
  if (maxBinarySize !== undefined && !isByteCount(maxBinarySize)) return undefined;
  const modes = Array.isArray(supportedModes)
    ? supportedModes.filter(isMode)
    : isMode(preferredMode)
      ? [preferredMode]
      : undefined;
  const windowBytes = isObject(interleave) ? interleave["windowBytes"] : undefined;
  const hasWindow = isByteCount(windowBytes) && windowBytes >= minWindowBytes;
  return definedMembers({
    modes,
    maxBinarySize,
    interleave: hasWindow ? { windowBytes } : undefined,
  });
}

/**
 * The terms between this end and one that declared `theirs`: none unless both can do the mode of
 * the transport. A client that prefers another mode may not be able to read this one.
 */
export function agreeOn(
  ours: BinaryAbility,
  theirs: BinaryDeclaration | undefined,
): BinaryTerms | undefined {
  if (!theirs || (theirs.modes && !theirs.modes.includes(ours.mode))) return undefined;
  return {
    maxBinaryBytes: Math.min(ours.maxBinaryBytes, theirs.maxBinarySize ?? Infinity),
    ...(ours.interleave && theirs.interleave && { interleave: theirs.interleave }),
  };
}

/** Below this size, headers would be most of a stream. */
const minWindowBytes = 4_096;

/** Key of `_meta` under which requests of stateless revisions carry the client's capabilities. */
export const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

/** True for the requests that are answered with the server's capabilities. */
export function opensExchange({ method }: { readonly method?: unknown }): boolean {
  return method === "initialize" || method === "server/discover";
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isMode(value: unknown): value is BinaryMode {
  return value === "stream" || value === "multipart" || value === "websocket-binary";
}

function isByteCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
