import { SluiceError } from "@sluice/core";

/** One rule that every store of a kind keeps, with the check that shows it. */
export interface StoreCase<Store, Limits = object> {
  /** Stable name of the rule, for test titles and for citing it. */
  readonly id: string;
  readonly sentence: string;
  /**
   * Checks the rule against a new, empty store with these limits, which is closed afterwards. Rejects with an error
   * that says what came instead. Time is passed in; nothing waits.
   */
  readonly run: (make: (limits: Limits) => Store | Promise<Store>) => Promise<void>;
}

/** The tools of the rules of one kind of store. */
export interface StoreKit<Store, Limits = object> {
  /** A rule; `check` throws, or rejects, when the store breaks it. Default of `limits`: those of the store. */
  readonly rule: (
    id: string,
    sentence: string,
    check: (store: Store) => Promise<void>,
    limits?: Limits,
  ) => StoreCase<Store, Limits>;
  /** Throws an error that names `what` and both values unless they are the same. */
  readonly equal: (actual: unknown, expected: unknown, what: string) => void;
  /** Rejects unless the call does, with a `SluiceError` of this code. */
  readonly rejects: (call: () => Promise<unknown>, code: string) => Promise<void>;
  /** The rule about `close`. */
  readonly closing: StoreCase<Store, Limits>;
}

/** Makes the kit of one kind of store. `kind` begins the errors of its checks. */
export function createStoreKit<Store extends { close?(): Promise<void> }, Limits = object>(
  kind: string,
  noLimits: Limits,
): StoreKit<Store, Limits> {
  const rule: StoreKit<Store, Limits>["rule"] = (id, sentence, check, limits = noLimits) => ({
    id,
    sentence,
    async run(make) {
      const store = await make(limits);
      try {
        await check(store);
      } finally {
        await store.close?.();
      }
    },
  });

  function equal(actual: unknown, expected: unknown, what: string): void {
    if (actual !== expected)
      throw new Error(`${kind}: ${what} should be ${String(expected)}, not ${String(actual)}`);
  }

  return {
    rule,
    equal,
    async rejects(call, code) {
      const result = await call().then(
        () => "success",
        (error: unknown) => (SluiceError.is(error) ? error.code : String(error)),
      );
      equal(result, code, "the rejection");
    },
    closing: rule("close-twice", "Closing twice is closing once.", async (store) => {
      await store.close?.();
      await store.close?.();
    }),
  };
}
