import { SluiceError } from "@sluice/core";
import type { OpenedObject } from "@sluice/storage";
import type { AuditEntry } from "../audit/audit.ts";
import type { Transfer } from "./reply.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";

interface TransferParts {
  readonly opened: OpenedObject;
  readonly entry: AuditEntry;
  /** Gives the stream's place back. */
  readonly release: () => void;
  /** What follows when the server knows how many bytes were sent. */
  readonly settle?: (sentBytes: number) => void;
}

/** The bytes of an opened object, with what must happen once they are through. */
export function createTransfer(
  { onError, usage }: Pick<SluiceParts, "onError" | "usage">,
  { opened, entry, release, settle }: TransferParts,
): Transfer {
  const { range, info } = opened;
  const bytes = range ? range.end - range.start : info.size;
  let ended = false;
  return {
    source: opened,
    ...(bytes !== undefined && { bytes }),
    end({ outcome, bytes: sent, error }) {
      if (ended) return;
      ended = true;
      release();
      usage.charge(entry.facts.principal, sent);
      const reason = SluiceError.is(error)
        ? error.code
        : outcome === "failed"
          ? "internal"
          : undefined;
      entry.end(outcome, { bytes: sent, ...(reason !== undefined && { reason }) });
      if (outcome !== "offloaded") settle?.(sent);
      if (outcome === "failed") onError(error);
    },
  };
}
