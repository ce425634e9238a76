import { pipeline } from "node:stream/promises";
import type { Exchange, Meddler } from "./meddler.ts";

/** A body that stands still in the middle of its way. */
export interface Hold {
  /** Breaks the connection. */
  reset(): void;
  /** Lets the rest pass. */
  release(): void;
}

/** Lets `offset` bytes of the next whole body of `size` bytes pass a meddler, and holds the rest. */
export function holdBody(meddler: Meddler, size: number, offset: number): Hold {
  let held: Exchange | undefined;
  let release!: () => void;
  const released = new Promise<void>((resolve) => (release = resolve));

  async function* partsOf({ answer }: Exchange): AsyncGenerator<Buffer> {
    let passed = 0;
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      const left = offset - passed;
      passed += chunk.length;
      if (left <= 0 || left > chunk.length) {
        yield chunk;
        continue;
      }
      yield chunk.subarray(0, left);
      await released;
      yield chunk.subarray(left);
    }
  }
  meddler.meddle = async (exchange) => {
    const { request, answer, response } = exchange;
    const isBody = answer.statusCode === 200 && Number(answer.headers["content-length"]) === size;
    if (held || !isBody || request.method === "HEAD") return false;
    held = exchange;
    response.writeHead(200, answer.headers);
    await pipeline(partsOf(exchange), response);
    return true;
  };
  return {
    reset() {
      held?.response.socket?.resetAndDestroy();
    },
    release,
  };
}
