import { SluiceError } from "@sluice/core";

/** A removal whose object may be gone already: `not_found` of a service is success. */
export async function settleRemoval(removal: Promise<unknown>): Promise<void> {
  try {
    await removal;
  } catch (error) {
    if (!SluiceError.is(error) || error.code !== "not_found") throw error;
  }
}
