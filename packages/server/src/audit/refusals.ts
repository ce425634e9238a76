import { backgroundClock } from "@sluice/core/internal";
import type { AuditRecord } from "./audit-record.ts";

const windowMs = 60_000;
/** Records of a kind that are kept as they are in a window … */
const keptOfAKind = 5;
/** … while all kept records together have at most this many characters. */
const maxCharacters = 32 * 1_024;
/** What a record takes beside its URI, with room to spare. */
const recordCharacters = 512;
/** Kinds told apart by grant and address. Beyond, they are told apart by action and reason, of which there are few. */
const maxKinds = 64;

interface Kind {
  readonly like: Partial<AuditRecord>;
  kept: number;
  count: number;
  first: number;
  last: number;
}

interface RefusalWindow {
  readonly endsAt: number;
  readonly kinds: Map<string, Kind>;
  readonly cancelFlush: () => void;
  charactersLeft: number;
}

/**
 * Refusals of callers that were not identified: a few are kept as they are, the others are counted by kind in windows of a
 * minute, in bounded memory. A minute of any number of them is some hundred records, and 64 KiB at most.
 */
export class Refusals {
  readonly #newId: () => string;
  readonly #keep: (record: AuditRecord) => void;
  #current: RefusalWindow | undefined;

  /** `keep` takes records that stand for many. */
  constructor(newId: () => string, keep: (record: AuditRecord) => void) {
    this.#newId = newId;
    this.#keep = keep;
  }

  /** Counts a refusal. False for one that is to be kept as it is. */
  count(record: AuditRecord): boolean {
    const now = Date.now();
    // some runtimes run no timers between requests
    if (this.#current && now >= this.#current.endsAt) this.flush();
    const current = (this.#current ??= this.#open(now));
    const kind = kindOf(current.kinds, record);
    const characters = recordCharacters + (record.uri?.length ?? 0);
    const isKept = kind.kept < keptOfAKind && characters <= current.charactersLeft;
    if (isKept) {
      kind.kept += 1;
      current.charactersLeft -= characters;
      return false;
    }
    if (kind.count === 0) kind.first = record.time;
    kind.count += 1;
    kind.last = record.time;
    return true;
  }

  /** Ends the window: gives away what was counted. */
  flush(): void {
    if (!this.#current) return;
    const { kinds, cancelFlush } = this.#current;
    this.#current = undefined;
    cancelFlush();
    for (const { like, count, first, last } of kinds.values())
      if (count > 0)
        this.#keep({
          id: this.#newId(),
          time: first,
          ...like,
          bytes: 0,
          durationMs: last - first,
          count,
        } as AuditRecord);
  }

  #open(now: number): RefusalWindow {
    const cancelFlush = backgroundClock.schedule(() => this.flush(), windowMs);
    const endsAt = now + windowMs;
    return { endsAt, kinds: new Map(), cancelFlush, charactersLeft: maxCharacters };
  }
}

function kindOf(kinds: Map<string, Kind>, record: AuditRecord): Kind {
  const { action, outcome, reason, step, grant, address } = record;
  const shared = { action, outcome, reason, step };
  const ownKind = { ...shared, grant, address };
  const found = kinds.get(JSON.stringify(ownKind));
  if (found) return found;
  if (kinds.size < maxKinds) return add(kinds, ownKind, 0);
  const crowd = address === undefined ? shared : { ...shared, address: "many" };
  return kinds.get(JSON.stringify(crowd)) ?? add(kinds, crowd, keptOfAKind);
}

function add(
  kinds: Map<string, Kind>,
  facts: Partial<Record<keyof AuditRecord, unknown>>,
  kept: number,
): Kind {
  const knownFacts = Object.entries(facts).filter(([, value]) => value !== undefined);
  const kind = { like: Object.fromEntries(knownFacts), kept, count: 0, first: 0, last: 0 };
  kinds.set(JSON.stringify(facts), kind);
  return kind;
}
