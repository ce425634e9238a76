import type { ServerResponse } from "node:http";
import type { Lending } from "@sluice/core";
import { flowOf } from "@sluice/core/internal";
import {
  discardReply,
  ensurePromisedBytes,
  problemOf,
  type Reply,
  type ReplyTransfer,
} from "@sluice/server/internal";
import { type BufferLender, BufferPool } from "./buffer-pool.ts";
import type { Offload } from "./offload.ts";
import { createOutflow, type Outflow, type OutflowOptions } from "./outflow.ts";
import { pumpFile } from "./pump-file.ts";

/** One bound for all transfers of the process. */
const sharedPool = new BufferPool();

/** How a reply is sent. */
export interface SendOptions extends OutflowOptions {
  /** Set if a proxy in front can send files. */
  readonly offload?: Offload | undefined;
  /** Awaited between a text and the end of the response, which may close the connection. */
  readonly beforeEnd?: () => Promise<void>;
}

/**
 * Sends a reply. A source that breaks before the first byte becomes an error response; after it, the
 * connection is destroyed: a short body never ends cleanly. Never rejects.
 */
export function sendReply(
  res: ServerResponse,
  reply: Reply,
  options: SendOptions = {},
): Promise<void> {
  if (res.destroyed || res.headersSent) {
    discardReply(reply);
    return noWait;
  }
  const { transfer } = reply;
  try {
    // most small responses end here, and wait for nothing
    if (transfer?.source.bytes && sendAtOnce(res, reply, transfer)) return noWait;
  } catch (error) {
    transfer!.end({ outcome: "failed", bytes: 0, error });
    if (!res.headersSent) return sendReply(res, problemOf(error));
    res.destroy();
    return noWait;
  }
  return sendRest(res, reply, options);
}

const noWait = Promise.resolve();

async function sendRest(res: ServerResponse, reply: Reply, options: SendOptions): Promise<void> {
  try {
    const { transfer } = reply;
    if (transfer) return await sendTransfer(res, { ...reply, transfer }, options);
    writeReplyHead(res, reply);
    if (options.beforeEnd) {
      if (reply.text === undefined) res.flushHeaders();
      else res.write(reply.text);
      await options.beforeEnd();
    }
    if (reply.text === undefined || options.beforeEnd) res.end();
    else res.end(reply.text);
    await untilTaken(res, options);
  } catch (error) {
    discardReply(reply, error);
    res.destroy();
  }
}

async function sendTransfer(
  res: ServerResponse,
  reply: Reply & { readonly transfer: ReplyTransfer },
  options: SendOptions,
): Promise<void> {
  const { transfer } = reply;
  const { source } = transfer;
  const { file, bytes } = source;
  const outflow = createOutflow(res, options);
  let hasBegun = false;
  const writeHead = (): void => {
    hasBegun = true;
    writeReplyHead(res, reply);
  };
  try {
    const headers = file && (await options.offload?.headersFor(res.req, reply, file));
    if (headers) {
      hasBegun = true;
      writeReplyHead(res, { status: reply.status, headers });
      await outflow.end();
      if (outflow.isBroken) return transfer.end({ outcome: "aborted", bytes: 0 });
      return transfer.end({ outcome: "offloaded", bytes: file.end - file.start });
    }
    // sendAtOnce has written them already: this only waits until the network has taken them
    if (bytes) await outflow.end(bytes);
    else if (file && file.end > file.start)
      await pumpFile(file, outflow, { pool: sharedPool, writeHead });
    else
      await pumpBody(source.body, outflow, {
        bytes: transfer.promisedBytes,
        pool: sharedPool,
        writeHead,
      });
    const outcome = outflow.isBroken ? "aborted" : "complete";
    transfer.end({ outcome, bytes: outflow.sentBytes });
  } catch (error) {
    transfer.end({ outcome: "failed", bytes: outflow.sentBytes, error });
    if (hasBegun) res.destroy();
    else await sendReply(res, problemOf(error));
  } finally {
    outflow.dispose();
    if (file) file.close().catch(() => {});
  }
}

/** Waits until the network has taken all of an ended response; destroys the connection of a reader that is too slow. */
export async function untilTaken(res: ServerResponse, options: OutflowOptions): Promise<void> {
  if (!res.socket || res.socket.writableLength === 0) return;
  const outflow = createOutflow(res, options);
  await outflow.end();
  outflow.dispose();
}

/**
 * Sends bytes that lie in memory together with their head. True when the network took them on the
 * spot, as it nearly always does: then there is nothing to wait for and no reader to watch.
 */
function sendAtOnce(res: ServerResponse, reply: Reply, transfer: ReplyTransfer): boolean {
  const bytes = transfer.source.bytes!;
  ensurePromisedBytes(bytes.byteLength, transfer.promisedBytes, { hasEnded: true });
  writeReplyHead(res, reply);
  const { socket } = res;
  res.end(bytes);
  if (!socket || socket.destroyed || socket.writableLength > 0) return false;
  transfer.end({ outcome: "complete", bytes: bytes.byteLength });
  return true;
}

/** Writes the head of a reply. Headers that middleware has set stay, except `X-Powered-By`. */
function writeReplyHead(res: ServerResponse, { status, headers }: Reply): void {
  if (res.hasHeader("x-powered-by")) res.removeHeader("x-powered-by");
  res.writeHead(status, headers as string[]);
}

interface BodyPump {
  /** How many bytes the source promised. */
  readonly bytes?: number | undefined;
  /** Memory for a source that can read into it. */
  readonly pool: BufferLender;
  /** Called once, before the first chunk or the end. */
  readonly writeHead: () => void;
}

/**
 * Sends a stream and ends the response, with at most two chunks under way. Rejects when the source breaks or has not the
 * bytes that it promised; a reader that goes away cancels it and shows in `outflow.isBroken`.
 */
export async function pumpBody(
  body: ReadableStream<Uint8Array>,
  outflow: Outflow,
  { bytes, pool, writeHead }: BodyPump,
): Promise<void> {
  const flow = flowOf(body);
  const memory = createLentMemory(pool);
  let received = 0;
  let isSent = false;

  function send(chunk: Uint8Array, release?: () => void): Promise<void> | void {
    // a write can fail before the connection closes
    if (outflow.isBroken) flow.cancel();
    // Node never reports an empty chunk as taken
    if (outflow.isBroken || chunk.byteLength === 0) return release?.();
    if (received === 0) writeHead();
    received += chunk.byteLength;
    ensurePromisedBytes(received, bytes, { hasEnded: false });
    // a new function for each chunk: the outflow identifies chunks by it, and chunks of one block share their `release`
    outflow.write(chunk, () => release?.());
    return outflow.pendingChunks < 2 ? undefined : outflow.untilFewerThan(2);
  }

  outflow.onBroken(() => flow.cancel());
  try {
    await flow.pump(send, memory.lending);
    if (outflow.isBroken) return;
    ensurePromisedBytes(received, bytes, { hasEnded: true });
    if (received === 0) writeHead();
    await outflow.end();
    isSent = !outflow.isBroken;
  } catch (error) {
    flow.cancel(error);
    // a source that was cancelled because its reader disconnected has not failed
    if (!outflow.isBroken) throw error;
  } finally {
    memory.giveBack(isSent);
  }
}

/** Blocks of the pool that the source of one transfer reads into. */
interface LentMemory {
  readonly lending: Lending;
  /** Returns them. Pass `false` while the network may still be reading from them. */
  giveBack(isReusable: boolean): void;
}

/** A large buffer, or a small one while there are no others. */
const blockBytes = 256 * 1024;
/** Two are being sent while one is filled. Wrappers that hold chunks ask for more. */
const blocks = 3;

/** Memory for one transfer, taken when its source begins to read into it. */
export function createLentMemory(pool: BufferLender): LentMemory {
  const loans: ReturnType<BufferLender["take"]>[] = [];
  function allocate(bytes: number): Uint8Array {
    const loan = pool.take(bytes);
    loans.push(loan);
    return loan.buffer;
  }

  return {
    lending: { blocks, blockBytes, allocate },
    giveBack(isReusable) {
      for (const loan of loans) {
        if (isReusable) loan.release();
        else loan.forget();
      }
    },
  };
}
