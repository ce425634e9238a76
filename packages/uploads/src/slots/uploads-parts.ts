import type { Host } from "@sluice/server/transport";
import type { UploadPace } from "../receive/body-guard.ts";
import type { Ledger } from "../quota/ledger.ts";
import type { PageDesk } from "../page/upload-pages.ts";
import type { ProgressBoard } from "../receive/progress.ts";
import type { SlotSealer } from "./slot-token.ts";
import type { Turns } from "../receive/turns.ts";
import type { UploadStorage } from "./upload-storage.ts";
import type { Scan } from "./uploads-options.ts";

/** What the handlers of one endpoint work with. */
export interface UploadsParts {
  readonly host: Host;
  readonly storage: UploadStorage;
  readonly sealer: SlotSealer;
  readonly ledger: Ledger;
  readonly board: ProgressBoard;
  readonly turns: Turns;
  readonly pace: UploadPace;
  readonly scan: Scan | undefined;
  readonly pages: PageDesk;
  /** Requests that are being answered. */
  readonly underWay: Set<Promise<unknown>>;
  /** Aborts when the endpoint is about to be closed: what can go on at another process ends. */
  readonly leaving: AbortSignal;
  /** Aborts when the endpoint is closed. */
  readonly closing: AbortSignal;
}

/** How long after its end, see `endOf`, an upload is kept that nobody confirmed. */
export const graceMs: number = 5 * 60_000;

/** How long it may be confirmed. Less, so that no sweep meets what was confirmed at the last moment. */
export const confirmMs: number = graceMs - 30_000;
