import { SluiceError } from "@sluice/core";

/** One rule that every store of a kind keeps, with the check that shows it. */
export interface StoreCase<Store, Bounds extends readonly unknown[] = []> {
  /** Stable name of the rule, for test titles and for citing it. */
  readonly id: string;
  /** The rule. */
  readonly sentence: string;
  /**
   * Checks the rule against a new, empty store, which is closed afterwards. Rejects with an error
   * that says what came instead. Time is passed in; nothing waits.
   */
  readonly run: (make: (...bounds: Bounds) => Store | Promise<Store>) => Promise<void>;
}

/** A rule; `check` throws, or rejects, when the store breaks it. */
export function storeCase<
  Store extends { close?(): Promise<void> },
  Bounds extends readonly unknown[] = [],
>(
  id: string,
  sentence: string,
  check: (store: Store) => Promise<void>,
  ...bounds: Bounds
): StoreCase<Store, Bounds> {
  return {
    id,
    sentence,
    async run(make) {
      const store = await make(...bounds);
      try {
        await check(store);
      } finally {
        await store.close?.();
      }
    },
  };
}

/** The rule about `close`, which every kind of store has. */
export function closingCase<
  Store extends { close?(): Promise<void> },
  Bounds extends readonly unknown[],
>(...bounds: Bounds): StoreCase<Store, Bounds> {
  return storeCase<Store, Bounds>(
    "close-twice",
    "Closing twice is closing once.",
    async (store) => {
      await store.close?.();
      await store.close?.();
    },
    ...bounds,
  );
}

/** What the checks of one kind of store are written with; `kind` begins their errors. */
export function storeChecks(kind: string): StoreChecks {
  function equal(actual: unknown, expected: unknown, what: string): void {
    if (actual !== expected)
      throw new Error(`${kind}: ${what} should be ${String(expected)}, not ${String(actual)}`);
  }

  async function rejects(call: () => Promise<unknown>, code: string): Promise<void> {
    const result = await call().then(
      () => "success",
      (error: unknown) => (SluiceError.is(error) ? error.code : String(error)),
    );
    equal(result, code, "the rejection");
  }

  return { equal, rejects };
}

/** See {@link storeChecks}. */
export interface StoreChecks {
  /** Throws an error that names `what` and both values unless they are the same. */
  readonly equal: (actual: unknown, expected: unknown, what: string) => void;
  /** Rejects unless the call does, with a `SluiceError` of this code. */
  readonly rejects: (call: () => Promise<unknown>, code: string) => Promise<void>;
}
