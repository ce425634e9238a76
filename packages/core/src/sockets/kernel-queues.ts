import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { endianness } from "node:os";
import { backgroundClock } from "../async/clock.ts";
import { groupsOfV6 } from "../headers/loopback-host.ts";

/** The system's figures on the bytes of a TCP connection that were handed to it. */
export interface KernelQueues {
  /** Bytes that the peer's system has not acknowledged. */
  readonly unacknowledged: number;
  /** Bytes that the peer itself has not read; known where the peer is a process of this machine. */
  readonly unread?: number | undefined;
  /** Whether the peer's system owes a response to a retransmission, or to a window probe. */
  readonly isUnanswered: boolean;
}

interface StreamHandle {
  readonly bytesWritten: number;
  readonly writeQueueSize?: number;
  /** Of a handle of TLS: that of the connection below. */
  readonly _parent?: StreamHandle;
}

/**
 * Bytes of a socket that the system accepted, including parts of chunks. Node has no public name
 * for the rest of a chunk that waits in libuv; with another handle, only whole chunks count.
 */
export function acceptedBytes(socket: Socket): number {
  const { _handle: handle } = socket as { readonly _handle?: StreamHandle | null };
  // oxlint-disable-next-line no-underscore-dangle -- Node's name
  const { bytesWritten = 0, writeQueueSize } = handle?._parent ?? handle ?? {};
  return writeQueueSize === undefined
    ? socket.bytesWritten - socket.writableLength
    : bytesWritten - writeQueueSize;
}

/** Reads the queues of a socket; `undefined` if the system does not tell. */
export type ReadQueues = (socket: Socket) => Promise<KernelQueues | undefined>;

/**
 * The queues of a socket from the tables that Linux keeps of all connections. One reading does for all sockets that wait for it.
 * There is nothing to read on other systems, nor of sockets that have a path.
 */
export const readQueues: ReadQueues = async ({
  localAddress,
  localPort,
  remoteAddress,
  remotePort,
}) => {
  if (localAddress === undefined || remoteAddress === undefined) return undefined;
  const tables = await readTables();
  const [local, remote] = [
    endNames(localAddress, localPort!),
    endNames(remoteAddress, remotePort!),
  ];
  const ownRow = tables.find(local, remote);
  if (!ownRow) return undefined;
  return {
    unacknowledged: Number.parseInt(ownRow["sent"]!, 16),
    // for the peer it is the other way round
    unread: readCount(tables.find(remote, local)?.["received"]),
    isUnanswered: Number.parseInt(ownRow["repeats"]!, 16) > 0 || Number(ownRow["probes"]) > 0,
  };
};

const readCount = (hex: string | undefined): number | undefined =>
  hex === undefined ? undefined : Number.parseInt(hex, 16);

const paths = ["/proc/net/tcp", "/proc/net/tcp6"];
let next: Promise<Tables> | undefined;
let freeAt = 0;

/** The tables, read after this was called. */
function readTables(): Promise<Tables> {
  next ??= readNext();
  return next;
}

async function readNext(): Promise<Tables> {
  const waitMs = Math.max(0, freeAt - backgroundClock.now());
  await new Promise<void>((resolve) => void backgroundClock.schedule(resolve, waitMs));
  next = undefined;
  const from = backgroundClock.now();
  const texts = await Promise.all(paths.map((path) => readFile(path, "latin1").catch(() => "")));
  const to = backgroundClock.now();
  // many readers must not make this the process's work; where the tables are short, it takes a millisecond
  freeAt = to + Math.min(1_000, 5 * (to - from));
  return new Tables(texts.join(""));
}

/**
 * After the ends: state, both queues, timer, retransmissions, user, and unanswered window probes.
 */
const rowRest =
  /^ [\dA-F]{2} (?<sent>[\dA-F]{8}):(?<received>[\dA-F]{8}) \S+ (?<repeats>[\dA-F]{8}) +\d+ +(?<probes>\d+) /;

class Tables {
  readonly #text: string;
  #searches = 0;
  #rows: ReadonlyMap<string, string> | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  find(
    ends: readonly string[],
    peers: readonly string[],
  ): Readonly<Record<string, string>> | undefined {
    for (const [at, end] of ends.entries()) {
      const rest = this.#restOf(`${end} ${peers[at]}`);
      if (rest !== undefined) return rowRest.exec(rest)?.groups;
    }
    return undefined;
  }

  /** For a few sockets a search costs less than taking all rows apart; for many it would cost their square. */
  #restOf(name: string): string | undefined {
    this.#searches += 1;
    if (this.#searches > maxSearches) {
      this.#rows ??= new Map(
        Array.from(this.#text.matchAll(row), ([, key, rest]) => [key!, rest!]),
      );
      return this.#rows.get(name);
    }
    const found = this.#text.indexOf(name);
    if (found < 0) return undefined;
    return this.#text.slice(found + name.length, found + name.length + 120);
  }
}

const maxSearches = 16;

/** Row number, both ends, and the rest of the row. */
const row = /^ *\d+: (\S+ \S+)( .*)$/gm;

/** How the tables write an end. One of IPv4 may stand in either table, its peer in the other one. */
function endNames(address: string, port: number): readonly string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const v4 = /^(?:::ffff:)?(\d+)\.(\d+)\.(\d+)\.(\d+)$/i.exec(address)?.slice(1).map(Number);
  if (!v4) return [words(bytesOfV6(address)) + suffix];
  const mapped = [...Array<number>(10).fill(0), 0xff, 0xff, ...v4];
  return [words(v4) + suffix, words(mapped) + suffix];
}

function bytesOfV6(address: string): number[] {
  const [plain = ""] = address.split("%", 1);
  return groupsOfV6(plain).flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 255];
  });
}

/** In hexadecimal, each four bytes as the number that they are to this machine. */
function words(bytes: readonly number[]): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4) {
    const word = bytes.slice(at, at + 4);
    if (endianness() === "LE") word.reverse();
    for (const byte of word) text += byte.toString(16).toUpperCase().padStart(2, "0");
  }
  return text;
}
