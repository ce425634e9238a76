import type { EventStore } from "./event-store.ts";
import type { StateStore } from "./state-store.ts";
import type { UploadStore } from "./upload-store.ts";

/**
 * All that the processes of a deployment share, made together so that nothing of it stays in the memory of one process:
 * `createMemoryStores()` for a single process, `createRedisStores` of @sluice/state-redis for several.
 */
export interface Stores {
  /** Redeemed and revoked download URLs, sessions, stored tokens. */
  readonly state: StateStore;
  /** The writer of each file that is uploaded, and quotas. */
  readonly uploads: UploadStore;
  /** Event streams that clients resume. */
  readonly events: EventStore;
}
