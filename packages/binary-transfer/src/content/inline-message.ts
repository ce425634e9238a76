import { SluiceError } from "@sluice/core";
import { BINARY_EXTENSION_ID } from "@sluice/core/internal";
import { base64Of } from "./binary-content.ts";
import { findRefs } from "../peer/binary-refs.ts";
import { isObject } from "../peer/negotiation.ts";
import type { Sending } from "../peer/peer.ts";

/**
 * Puts the bytes of a message into its JSON after all, as base64: for a transport that finds out too late that
 * they cannot go beside it. Throws `too_large` for more than `maxBytes`, and errors of a source; every stream
 * has ended then.
 */
export async function inlineMessage({ text, streams }: Sending, maxBytes: number): Promise<string> {
  const message: unknown = JSON.parse(text);
  const holders = new Map(findRefs(message).map(({ holder, ref }) => [ref.streamId, holder]));
  let remainingBytes = maxBytes;
  let failure: { readonly error: unknown } | undefined;
  for (const stream of streams) {
    const { ref, source } = stream;
    try {
      const data = await base64Of({ source, size: ref.size }, failure ? -1 : remainingBytes);
      remainingBytes -= ref.size;
      stream.end({ outcome: "complete", bytes: ref.size });
      put(holders.get(ref.streamId)!, data);
    } catch (error) {
      failure ??= { error };
      const outcome = SluiceError.is(error) && error.code === "too_large" ? "aborted" : "failed";
      stream.end({ outcome, bytes: 0, error });
    }
  }
  if (failure) throw failure.error;
  return JSON.stringify(message);
}

function put(holder: Record<string, unknown>, data: string): void {
  delete holder["binaryRef"];
  delete holder["transferMode"];
  const meta = holder["_meta"];
  if (isObject(meta)) {
    const { [BINARY_EXTENSION_ID]: _ours, ...rest } = meta;
    holder["_meta"] = rest;
  }
  holder[holder["type"] === undefined ? "blob" : "data"] = data;
}
