import type { StateStore } from "@sluice/state";
import { codeOf } from "./upload-error.ts";

export interface PutTimes {
  /** Unix milliseconds. */
  readonly now: number;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

/** Puts a record; false when its id is taken. */
export async function tryPut(
  state: StateStore,
  id: string,
  record: Uint8Array,
  times: PutTimes & { readonly owner: string },
): Promise<boolean> {
  try {
    await state.put(id, record, times);
    return true;
  } catch (error) {
    if (codeOf(error) === "already_exists") return false;
    throw error;
  }
}
