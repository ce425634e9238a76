/** Keeps saves that run at once from meeting at one path. */
export interface SaveOrder {
  /**
   * Works out the path of save number `index` once every earlier save has its own or needs none, and waits while an earlier
   * one writes to the same path.
   */
  enter(index: number, pathOf: () => Promise<string>): Promise<PlaceInOrder>;
  /** Save number `index` needs no path any more. Idempotent. */
  pass(index: number): void;
}

/** A path that belongs to one save of this run. */
export interface PlaceInOrder {
  readonly path: string;
  /** Lets the next save to the same path begin. Call it when this one is over. */
  readonly leave: () => void;
}

/** What opens once. */
interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
}

/** An order for saves numbered from 0 on, which begin in that order. */
export function createSaveOrder(): SaveOrder {
  const passed = new Map<number, Gate>();
  const atPath = new Map<string, Gate>();

  function gateOf(index: number): Gate {
    let gate = passed.get(index);
    if (!gate) passed.set(index, (gate = createGate()));
    return gate;
  }

  return {
    async enter(index, pathOf) {
      if (index > 0) await gateOf(index - 1).opened;
      const path = await pathOf();
      const before = atPath.get(path);
      const gate = createGate();
      atPath.set(path, gate);
      gateOf(index).open();
      await before?.opened;
      const leave = (): void => {
        if (atPath.get(path) === gate) atPath.delete(path);
        gate.open();
      };
      return { path, leave };
    },
    pass(index) {
      gateOf(index).open();
    },
  };
}

function createGate(): Gate {
  let open: (() => void) | undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open?.() };
}
