import { BINARY_EXTENSION_ID } from "@sluice/core/wire";
import type { BinaryReads } from "@sluice/server";
import { asksForBinary, outletOf } from "./outlet.ts";

/**
 * Makes a Sluice answer `resources/read` with `transferMode: "binary"` by bytes beside the message, where
 * that was negotiated: pass it as `binary` to `sluice.attach`. A resource over the limit, of unknown
 * size, or asked for in parts stays inside the JSON, with the limits that hold there.
 */
export const binaryReads: BinaryReads = {
  maxBytes: (ctx) => (asksForBinary(ctx) ? outletOf(ctx)?.maxBinarySize : undefined),
  deliver(ctx, { transfer, size, checksum }) {
    const outlet = outletOf(ctx);
    // the connection went away since maxBytes
    if (!outlet) throw new TypeError("binary: read: there is no outlet; ask maxBytes first");
    const binaryRef = outlet.offer({
      source: transfer.source,
      size,
      ...(checksum !== undefined && { checksum }),
      end: (result) => transfer.end(result),
    });
    // an SDK takes contents without blob or text for invalid, and drops members it does not know
    return { blob: "", _meta: { [BINARY_EXTENSION_ID]: { binaryRef } } };
  },
};
