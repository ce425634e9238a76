import { createSha256, type TextSealer } from "@sluice/core";
import type { RecordTerms, StateStore } from "../contract/state-store.ts";

/** Options of {@link createSealedRecords}. */
export interface SealedRecordsOptions {
  readonly state: StateStore;
  readonly sealer: TextSealer;
  /** Kind of the records: keeps them apart from all others of the store. */
  readonly kind: string;
}

/** Texts in the state store, each under a secret of 32 characters that stands for it in a URL or an answer. */
export interface SealedRecords {
  /** Keeps a text for one secret and context. Rejects with errors of the store. */
  keep(secret: string, text: string, context: readonly string[], terms: RecordTerms): Promise<void>;
  /**
   * The text. Rejects with `invalid_argument` if none is kept, or for another secret, context or
   * key, and with errors of the store.
   */
  find(secret: string, context: readonly string[], now: number): Promise<string>;
  /** Removes a text: true for exactly one of all calls. */
  take(secret: string, now: number): Promise<boolean>;
}

/**
 * Makes the records of one kind. They lie under the SHA-256 of their secret, sealed for it: a reader of the store learns
 * and can use nothing, a writer to it can permit nothing, and a key that leaves the ring takes its records along.
 */
export function createSealedRecords({ state, sealer, kind }: SealedRecordsOptions): SealedRecords {
  const idOf = (secret: string): string => {
    const hash = createSha256();
    hash.update(new TextEncoder().encode(secret));
    return `${kind} ${hash.digest()}`;
  };
  return {
    async keep(secret, text, context, terms) {
      const sealed = sealer.seal(text, [...context, secret]);
      await state.put(idOf(secret), new TextEncoder().encode(sealed), terms);
    },
    async find(secret, context, now) {
      const record = await state.get(idOf(secret), now);
      return sealer.unseal(new TextDecoder().decode(record), [...context, secret]);
    },
    async take(secret, now) {
      return (await state.take(idOf(secret), now)) !== undefined;
    },
  };
}
