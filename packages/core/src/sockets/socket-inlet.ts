import { Agent as HttpAgent, type AgentOptions } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Socket } from "node:net";
import { ruledOptions } from "./server-rules.ts";
import type { Lending, WriteChunk } from "../bytes/byte-flow.ts";

/**
 * Where the bytes of one socket go: to Node's HTTP parser, which copies them, or, once the headers
 * are parsed and only a body of known length is left, straight to the writer.
 */
interface SocketInlet {
  /**
   * Bytes go to `write` from now on, and its errors to `fail`. The socket can carry no other
   * exchange afterwards.
   */
  divert(write: WriteChunk, lending: Lending, fail: (error: unknown) => void): void;
}

const inlets = new WeakMap<Socket, SocketInlet>();

/** The inlet of a socket that one of {@link createInletAgents} opened. */
export function inletOf(socket: Socket): SocketInlet | undefined {
  return inlets.get(socket);
}

/** Agents of one program for `http:` and `https:`. */
export interface InletAgents {
  readonly http: HttpAgent;
  readonly https: HttpsAgent;
}

/**
 * Agents whose sockets have an inlet. A request that fails because its idle connection had closed
 * has the code {@link staleConnection}. For the parser they read at most `readBytes` at once.
 * Default: 64 KiB.
 */
export function createInletAgents(options: AgentOptions, readBytes = 65_536): InletAgents {
  return {
    http: fit(new HttpAgent(options), readBytes),
    https: fit(new HttpsAgent(options), readBytes),
  };
}

/** Code of the error of a request whose idle connection had closed: on a new one it works. */
export const staleConnection = "STALE_CONNECTION";

const resets: ReadonlySet<unknown> = new Set(["ECONNRESET", "EPIPE"]);

type Connect = (options: SocketOptions, callback?: unknown) => Socket;

/** What an agent passes on of its own options and of those of a request. */
interface SocketOptions {
  readonly host?: string;
  readonly port?: number;
  readonly onread?: object;
}

function fit<A extends HttpAgent>(agent: A, readBytes: number): A {
  const opener = agent as unknown as { createConnection: Connect };
  const connect = opener.createConnection.bind(agent);
  opener.createConnection = (options, callback) => {
    const inlet = createInlet(readBytes);
    const ruled = ruledOptions(options.host ?? "", options.port ?? 0);
    const socket = connect({ ...options, ...ruled, onread: inlet.onread }, callback);
    inlet.attach(socket);
    inlets.set(socket, inlet);
    return socket;
  };
  const reuse = agent.reuseSocket.bind(agent);
  agent.reuseSocket = (socket, request) => {
    reuse(socket, request);
    // an error comes here only before there is a response
    request.once("error", (error: NodeJS.ErrnoException) => {
      if (!resets.has(error.code)) return;
      error.code = staleConnection;
      // the others have been idle for as long
      for (const idle of Object.values(agent.freeSockets).flat()) idle?.destroy();
    });
  };
  return agent;
}

/** A block is handed on, rather than read into, when it has less room than this. */
export const minRoomBytes: number = 65_536;

interface Block {
  readonly bytes: Uint8Array;
  filled: number;
  /** Views of it that are lent. */
  lent: number;
  /** Gives one of them back. */
  readonly release: () => void;
}

const newMemory = (bytes: number): Uint8Array => Buffer.allocUnsafeSlow(bytes);

interface OpenInlet extends SocketInlet {
  readonly onread: { buffer(): Uint8Array; callback(count: number, bytes: Uint8Array): boolean };
  attach(socket: Socket): void;
}

function createInlet(readBytes: number): OpenInlet {
  // bytes for the parser, which copies those that it keeps
  const scratch = Buffer.allocUnsafeSlow(readBytes);
  let socket: Socket;
  let write: WriteChunk | undefined;
  let fail: (error: unknown) => void;
  let ring: Block[] = [];
  let at = 0;
  let isWaiting = false;
  let starved = false;

  const current = (): Block => ring[at] as Block;
  const next = (): Block => ring[(at + 1) % ring.length] as Block;
  const roomOf = ({ bytes, filled }: Block): number => bytes.length - filled;

  /**
   * Goes on to the next block when this one is nearly full. Starves while the one after is lent: a
   * socket asks for memory before it stops, so one block stays in reserve.
   */
  function rotate(): void {
    if (roomOf(current()) < minRoomBytes && next().lent === 0) {
      at = (at + 1) % ring.length;
      current().filled = 0;
    }
    starved = next().lent > 0;
  }

  function goOn(): void {
    isWaiting = false;
    if (!starved) socket.resume();
  }

  /** Writes a chunk; true when more may follow at once. */
  function pass(to: WriteChunk, chunk: Uint8Array, giveBack?: () => void): boolean {
    try {
      const wait = to(chunk, giveBack);
      wait?.then(goOn, fail);
      return !wait;
    } catch (error) {
      fail(error);
      return false;
    }
  }

  function lend(to: WriteChunk, count: number): boolean {
    const block = current();
    const view = block.bytes.subarray(block.filled, block.filled + count);
    block.filled += count;
    block.lent++;
    const wantsMore = pass(to, view, block.release);
    rotate();
    return wantsMore;
  }

  function createBlock(bytes: Uint8Array): Block {
    const block: Block = {
      bytes,
      filled: 0,
      lent: 0,
      release() {
        block.lent--;
        if (!starved) return;
        rotate();
        if (!starved && !isWaiting) socket.resume();
      },
    };
    return block;
  }

  return {
    onread: {
      // called after every read for the memory of the next; lent memory is never filled
      buffer: () =>
        write && roomOf(current()) > 0 ? current().bytes.subarray(current().filled) : scratch,
      callback(count, bytes) {
        if (!write) return socket.emit("data", bytes.subarray(0, count));
        const wantsMore =
          bytes === scratch
            ? pass(write, new Uint8Array(bytes.subarray(0, count)))
            : lend(write, count);
        isWaiting = !wantsMore;
        return wantsMore && !starved;
      },
    },
    attach(to) {
      socket = to;
    },
    divert(to, { blocks, blockBytes, allocate = newMemory }, failed) {
      ring = Array.from({ length: blocks }, () => createBlock(allocate(blockBytes)));
      write = to;
      fail = failed;
    },
  };
}
