import type { StateStore } from "@sluice/state";
import { isPut, type PutTimes } from "../slots/put-once.ts";
import { uploadError } from "../slots/upload-error.ts";

/** Maximum pages of one owner at a time. */
const placesOfOwner = 16;
/** Callers that nothing vouches for cannot be told apart: each page takes one of this many shares by chance. */
const anonymousShares = 16;

/** Bounds the pages that are open for one owner, in all processes of a state store: each place is a record whose id is free or taken. */
export class OpenPages {
  readonly #state: StateStore;

  constructor(state: StateStore) {
    this.#state = state;
  }

  /**
   * Takes a place until the page ends; gives its id. An empty owner stands for callers that nothing vouches for. Throws
   * `throttled` when there is none.
   */
  async take(owner: string, times: PutTimes): Promise<string> {
    const share = owner === "" ? `anonymous-${Math.floor(Math.random() * anonymousShares)}` : owner;
    for (let n = 0; n < placesOfOwner; n++) {
      const place = `upload-place-${share}-${n}`;
      if (await isPut(this.#state, place, new Uint8Array(), { ...times, owner })) return place;
    }
    throw uploadError(
      "throttled",
      `${placesOfOwner} upload pages are open for this user; answer one of them, or call the tool again when one has expired`,
      { retryAfterMs: 60_000 },
    );
  }

  async release(place: string): Promise<void> {
    await this.#state.take(place, Date.now());
  }
}
