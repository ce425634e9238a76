import { definedMembers, SluiceError } from "@sluice/core";
import { BINARY_EXTENSION_ID } from "@sluice/core/wire";
import type { BinaryReads } from "@sluice/server";
import { discardBytes } from "../peer/outbox.ts";
import { asksForBinary, outletOf } from "../peer/outlet.ts";

/**
 * Makes a Sluice answer `resources/read` with `transferMode: "binary"` by bytes beside the message, where
 * that was negotiated: pass it as `binary` to `sluice.attach`. A resource over the limit, of unknown
 * size, or asked for in parts stays inside the JSON, with the limits that hold there.
 */
export const binaryReads: BinaryReads = {
  maxBytes: (ctx) => (asksForBinary(ctx) ? outletOf(ctx)?.maxBinarySize : undefined),
  deliver(ctx, { transfer, size, checksum }) {
    const { source } = transfer;
    const end = (result: Parameters<typeof transfer.end>[0]): void => transfer.end(result);
    const bytes = definedMembers({ source, size, checksum, end });
    const outlet = outletOf(ctx);
    if (!outlet) {
      // the connection went away since maxBytes
      const goneError = new SluiceError("interrupted", "binary: read: the connection is gone");
      discardBytes(bytes, goneError);
      throw goneError;
    }
    const binaryRef = outlet.offer(bytes);
    // an SDK takes contents without blob or text for invalid, and drops members it does not know
    return { blob: "", _meta: { [BINARY_EXTENSION_ID]: { binaryRef } } };
  },
};
