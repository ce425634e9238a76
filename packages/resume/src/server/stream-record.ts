import type { RpcId } from "@sluice/core/internal";
import type { StreamPage } from "@sluice/state";
import type { RerunRecord } from "../stream/rerun.ts";

/** Data of a stream besides its events, as JSON: written once, when it opens. What changes with the writer is in `claim`. */
export interface StreamRecord {
  readonly requestId: RpcId;
  readonly sessionId: string;
  /** Tag of the principal in its session. */
  readonly owner: string;
  /** Only for a call that may run again. */
  readonly rerun?: RerunRecord | undefined;
}

/** Reads the record of a stream. */
export function readRecord({ record }: StreamPage): StreamRecord {
  return JSON.parse(record) as StreamRecord;
}
