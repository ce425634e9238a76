import { fileNameFromUri, SluiceError, type Principal } from "@sluice/core";
import { createBytesBody, withBody } from "@sluice/storage/plugin";
import { tagOf } from "../access/principal.ts";
import { replySlotOf } from "../calls/reply-slot.ts";
import type { OpenAnswerLease } from "../calls/answer-lease.ts";
import type { Place } from "../storage/mounts.ts";
import type { ReadCall } from "../resources/resource-reader.ts";
import { readAsAuthor, type AuthorCall } from "./author-read.ts";
import { revisionOf } from "../calls/request-caller.ts";
import type { CallWork } from "../calls/resource-calls.ts";
import { FaultError, rpcFault } from "../faults/rpc-fault.ts";
import type { StreamAnswer } from "./delivery.ts";
import type { DirectDelivery } from "./direct.ts";
import { contentOf } from "./registered-content.ts";
import { clientStreaming } from "../calls/streaming-declarations.ts";

/**
 * Streams a resource that the author of a server registered with the SDK: what its `resources/read` gives, as bytes. The scopes
 * of the caller are checked before. `place` is that of a URI below a base: it is the author's only where reading it shows so.
 * `undefined` for a URI that comes to this Sluice, and for one outside of the mounts that cannot go as bytes.
 */
export type StreamRegistered = (
  call: ReadCall & AuthorCall,
  work: CallWork,
  place?: Place,
) => Promise<StreamAnswer | undefined>;

interface StreamRegisteredOptions {
  readonly direct: (delivery: DirectDelivery) => Promise<StreamAnswer | undefined>;
  readonly openLease: OpenAnswerLease;
  /** Most bytes of one resource. */
  readonly maxBytes: number;
}

/**
 * Makes what streams registered resources: capability → place among the streams → read → size → record. Below a base the access
 * rules of the mount come first, and then the read, which alone tells whose the URI is. The bytes go in the answer itself:
 * nothing is kept from which a download URL could give them again.
 */
export function createStreamRegistered(options: StreamRegisteredOptions): StreamRegistered {
  const { direct, openLease, maxBytes } = options;
  return async (call, { identity, principal, address, entry }, place) => {
    const { mcp, ctx, uri } = call;
    // what is hidden is looked for in storage, and the author is not asked
    if (place && !(await isAllowed(place, principal))) return undefined;
    const known = place && (await readAsAuthor(call));
    if (place && !known) return undefined;
    const slot = replySlotOf(ctx.http?.req);
    const client = clientStreaming(mcp, ctx, slot);
    if (!client) throw new FaultError(rpcFault("client_capability", revisionOf(mcp), { uri }));
    if (!slot || client === "untold") {
      if (known) throw readOnly("there is no HTTP answer for its bytes");
      return undefined;
    }

    entry.facts.mode = "direct";
    const key = fileNameFromUri(uri) ?? hostOf(uri);
    const lease = openLease(tagOf(principal), address);
    const answer = await direct({
      uri,
      // its memory is held as long as the place among the streams
      place: { key, name: uri, mount: { limiter: { take: () => () => lease.release() } } },
      info: { key },
      mimeType: "application/octet-stream",
      storage: {
        async open(_key, { signal } = {}) {
          const { bytes, mimeType } = contentOf(known ?? (await readAsAuthor(call)), maxBytes);
          lease.add(bytes.byteLength);
          const info = { key, size: bytes.byteLength, contentType: mimeType };
          return withBody({ info, bytes }, () => createBytesBody(bytes, signal));
        },
        typeOf: async ({ contentType }) => contentType!,
      },
      identity: { ...identity, mayMint: false },
      address,
      client,
      entry,
      signal: ctx.http?.req?.signal,
    });
    if (answer) return answer;
    throw readOnly("its type is that of messages of the protocol");
  };
}

async function isAllowed(
  { mount, key }: Place,
  principal: Principal | undefined,
): Promise<boolean> {
  const { mapper, access } = mount;
  return (await access.decide(principal, mapper.toUri(key), "stream")) === "allow";
}

/** Names what has no path, such as `config://app`. */
function hostOf(uri: string): string {
  return URL.canParse(uri) ? new URL(uri).host : "";
}

/** The reason is for the operator; the client hears that `resources/read` has it. */
function readOnly(reason: string): SluiceError {
  return new SluiceError("unsupported", `sluice: stream: the author registered it, and ${reason}`);
}
