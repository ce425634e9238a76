/** A part of an object that one connection fetches. Its end moves when another one takes over the rest. */
interface Share {
  readonly start: number;
  /** One past the last byte that is this share's own. */
  readonly end: () => number;
  /** Takes over the share behind it where that one waits, so that one answer brings both. Gives the new end. */
  readonly extend: () => number;
  /** Tells how far it is. */
  readonly note: (at: number) => void;
  /** Leaves what is not fetched yet to the next one that asks. Nothing more is fetched under it. */
  readonly giveBack: () => void;
}

/** Divides an object among connections; one that is done early takes half of what the slowest has left. */
export interface SharedRanges {
  /** The next share, or `undefined` when nothing worth a request is left. */
  next(): Share | undefined;
}

/**
 * Shares of an object of `size` bytes: equal ones first, from the front on and `rounds` for each
 * connection, then halves of what is left. More rounds keep the finished part of the file
 * together; fewer need fewer requests.
 */
export function shareRanges(
  size: number,
  connections: number,
  rounds: number,
  leastBytes: number,
): SharedRanges {
  const open: { at: number; end: number }[] = [];
  const count = Math.max(1, Math.min(connections * rounds, Math.floor(size / leastBytes)));
  const edge = (index: number): number => Math.floor((size / count) * index);
  const waiting = Array.from({ length: count }, (_, index) => ({
    at: edge(index),
    end: index === count - 1 ? size : edge(index + 1),
  }));

  function take(): { at: number; end: number } | undefined {
    const fresh = waiting.shift();
    if (fresh) return fresh;
    const [slowest] = open.toSorted((a, b) => b.end - b.at - (a.end - a.at));
    if (!slowest || slowest.end - slowest.at < 2 * leastBytes) return undefined;
    const middle = slowest.at + Math.ceil((slowest.end - slowest.at) / 2);
    const taken = { at: middle, end: slowest.end };
    slowest.end = middle;
    return taken;
  }

  function close(range: { at: number; end: number }): void {
    if (open.includes(range)) open.splice(open.indexOf(range), 1);
  }

  return {
    next() {
      const range = take();
      if (!range) return undefined;
      open.push(range);
      return {
        start: range.at,
        end: () => range.end,
        extend() {
          if (waiting[0]?.at === range.end) range.end = waiting.shift()!.end;
          return range.end;
        },
        note(at) {
          range.at = at;
          if (at >= range.end) close(range);
        },
        giveBack() {
          close(range);
          if (range.at >= range.end) return;
          const behind = waiting.findIndex(({ at }) => at > range.at);
          // from the front on, so that the finished part of the file stays together
          waiting.splice(behind < 0 ? waiting.length : behind, 0, { at: range.at, end: range.end });
        },
      };
    },
  };
}
