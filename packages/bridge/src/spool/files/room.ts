/** Room that one file has, while it is written. */
export interface Reservation {
  /** Has this many bytes in all. Rejects with `no_space` and keeps what it had. */
  grow(bytes: number): Promise<void>;
  /** The same for a file whose bytes still come: takes some in advance where there are any. */
  growAhead(bytes: number): Promise<void>;
  /** Gives all of it back, once the file counts itself or is gone. Idempotent. */
  release(): Promise<void>;
}

/** Room of a folder that files share while they are written. */
export interface SharedRoom {
  /** Rejects with `no_space`. Default: no bytes yet. */
  reserve(bytes?: number): Promise<Reservation>;
}

/** Reservations as they count, perhaps also in other processes. */
export interface ReservationRecords {
  reservedBytes(): Promise<number>;
  /** Begins one without bytes, which counts until it is given back, or this process ends. */
  reserve(): RecordedReservation;
}

interface RecordedReservation {
  resize(bytes: number): Promise<void>;
  release(): Promise<void>;
}

interface RoomOptions {
  readonly maxBytes: number;
  readonly records: ReservationRecords;
  /** Bytes of whole files. A file counts there before its reservation is given back. */
  readonly wholeBytes: () => Promise<number>;
  /** What is said where `neededBytes` bytes do not fit into the free ones. */
  readonly fault: (neededBytes: number, free: number) => Promise<Error> | Error;
}

/**
 * Has files reserve their bytes before these are written, in steps where the size is not known. What is reserved counts first
 * and is compared then, so two that reserve at the same time, also in two processes, never share the same room.
 */
export function createRoom({ maxBytes, records, wholeBytes, fault }: RoomOptions): SharedRoom {
  let last: Promise<unknown> = Promise.resolve();

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work);
    last = result.catch(() => {});
    return result;
  }

  /** Negative where more is counted than may be. */
  async function freeBytes(): Promise<number> {
    // first: a reservation is given back after its file counts, and none is missed in between
    const reserved = await records.reservedBytes();
    return maxBytes - reserved - (await wholeBytes());
  }

  return {
    async reserve(bytes = 0) {
      const recorded = records.reserve();
      let granted = 0;

      /** Takes `neededBytes` bytes, or fewer where only `needed` have room. */
      async function take(needed: number, fileBytes: number): Promise<void> {
        await recorded.resize(fileBytes);
        const free = await freeBytes();
        const possible = Math.min(fileBytes, fileBytes + free);
        if (possible < needed) {
          await recorded.resize(granted);
          throw await fault(needed, Math.max(0, fileBytes + free));
        }
        if (possible < fileBytes) await recorded.resize(possible);
        granted = possible;
      }

      async function grow(needed: number, ahead: number): Promise<void> {
        if (needed <= granted) return;
        await inTurn(async () => {
          if (needed > granted) await take(needed, needed + ahead);
        });
      }

      try {
        await grow(bytes, 0);
      } catch (error) {
        await recorded.release();
        throw error;
      }
      return {
        grow: (needed) => grow(needed, 0),
        growAhead: (needed) =>
          grow(needed, Math.min(Math.max(needed, minAheadBytes), maxAheadBytes)),
        release: () => recorded.release(),
      };
    },
  };
}

const minAheadBytes = 65_536;
const maxAheadBytes = 4 * 2 ** 20;

/** Reservations of this process alone. */
export function createMemoryReservations(): ReservationRecords {
  const reserved = new Map<symbol, number>();
  return {
    reservedBytes: async () => [...reserved.values()].reduce((sum, bytes) => sum + bytes, 0),
    reserve() {
      const id = Symbol("reservation");
      return {
        resize: async (bytes) => void reserved.set(id, bytes),
        release: async () => void reserved.delete(id),
      };
    },
  };
}
