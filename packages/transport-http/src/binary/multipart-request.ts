import { SluiceError } from "@sluice/core";
import { type RpcCall, ThroughputBudget } from "@sluice/core/internal";
import {
  type BinaryPeer,
  callOf,
  readJsonPart,
  readMultipart,
  receiveParts,
} from "@sluice/binary-transfer/internal";

/** A request of several parts, as far as its JSON was read. */
export interface MultipartRequest {
  readonly call: RpcCall;
  /** Gives the parts to the transfers that the call announced. */
  receive(peer: BinaryPeer, refs: Parameters<typeof receiveParts>[1]["refs"]): void;
  stop(): void;
}

/** How long the JSON part may take. */
const headMs = 30_000;

/** Reads the beginning of a request. Rejects with `protocol`, `too_large`, `timeout` or `interrupted`. */
export async function readMultipartRequest(
  body: ReadableStream<Uint8Array>,
  boundary: string,
  maxJsonBytes: number,
): Promise<MultipartRequest> {
  const source = body.getReader();
  const stop = (): void => void source.cancel().catch(() => {});
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    stop();
  }, headMs);
  try {
    const reader = readMultipart(readAtPace(source), boundary);
    const call = callOf(await readJsonPart(reader, maxJsonBytes));
    if (!call) throw new SluiceError("protocol", "http: the first part is not a JSON-RPC request");
    return {
      call,
      receive(peer, refs) {
        void receiveParts(reader, { inbox: peer.inbox, refs }).then(
          (isThrough) => isThrough || stop(),
        );
      },
      stop,
    };
  } catch (error) {
    stop();
    throw isLate ? new SluiceError("timeout", "http: the JSON did not come in time") : error;
  } finally {
    clearTimeout(timer);
  }
}

/** Milliseconds of waiting for less than 4 KiB a second. */
const graceMs = 20_000;

/** The chunks of a body. A sender that is waited for too long for too little is given up with `timeout`. */
function readAtPace(
  source: ReadableStreamDefaultReader<Uint8Array>,
): () => Promise<Uint8Array | undefined> {
  const budget = new ThroughputBudget(graceMs);
  return async () => {
    const at = performance.now();
    const { value } = await source.read().catch((cause: unknown) => {
      throw new SluiceError("interrupted", "http: the body ended before its end", { cause });
    });
    // the time before the reader asks is its own
    budget.spend(performance.now() - at, value?.length ?? 0);
    if (budget.leftMs < 0) throw new SluiceError("timeout", "http: the body comes too slowly");
    return value;
  };
}
