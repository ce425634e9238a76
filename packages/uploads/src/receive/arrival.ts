import type { RequestBody } from "@sluice/transport-http";
import { readGuarded } from "./body-guard.ts";
import type { RequestFacts } from "./request-facts.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";

/** A request with a body that may send it. */
export interface Arrival {
  readonly slot: OpenSlot;
  readonly facts: RequestFacts;
  readonly body: RequestBody | undefined;
  /** Aborts when the sender goes or the endpoint is closed. */
  readonly signal: AbortSignal;
  /** Hears of bytes that came, for the record of the request. */
  readonly onBytes: (count: number) => void;
}

/** Reads its body at the pace that is asked of it. */
export function readArrival(
  { pace }: UploadsParts,
  { body, signal }: Pick<Arrival, "body" | "signal">,
  take: (chunk: Uint8Array) => Promise<void> | undefined,
): Promise<void> {
  return readGuarded(body, take, signal, { pace });
}
