import { definedMembers } from "@sluice/core";
import { EXTENSION_ID, type ClientStreaming } from "@sluice/core/wire";

/** Client capabilities that declare resource streaming. */
export interface StreamingCapabilities {
  /** The field of SEP-2532 §1. */
  readonly resourceStreaming: { readonly maxStreamSize?: number };
  /** The same under a vendor extension (SEP-2133), which every SDK passes on. */
  readonly extensions: { readonly [EXTENSION_ID]: StreamingExtension };
}

/** Our settings as an extension's data. */
// oxlint-disable-next-line typescript/consistent-type-definitions -- an SDK wants an index signature, which only a type alias has
export type StreamingExtension = { maxStreamSize?: number; prefer?: string[] };

/**
 * The capabilities that tell a server it may answer `resources/stream` with bytes. Spread them
 * into the `capabilities` of an SDK client whose transport has the {@link withStreaming} fetch.
 * `maxStreamSize` is in bytes; absent means that the server need not mind the size.
 */
export function streamingCapabilities(streaming: ClientStreaming = {}): StreamingCapabilities {
  const { maxStreamSize, prefer } = streaming;
  if (maxStreamSize !== undefined && !(Number.isSafeInteger(maxStreamSize) && maxStreamSize > 0))
    throw new RangeError(
      `client: maxStreamSize ${maxStreamSize} is no byte count; pass a safe integer from 1`,
    );
  const size = definedMembers({ maxStreamSize });
  return {
    resourceStreaming: size,
    extensions: {
      [EXTENSION_ID]: definedMembers({ maxStreamSize, prefer: prefer && [...prefer] }),
    },
  };
}
