import { createServer, connect, type Socket } from "node:net";
import type { FetchLike } from "@sluice/client";
import { listen, type Listening } from "./listen.ts";
import type { Random } from "./random.ts";

/** Where {@link cutting} cuts. */
export interface CuttingOptions {
  readonly random: Random;
  /** Bytes of a stream that always arrive; `undefined` for one that is not cut. */
  readonly spare: (response: Response, init: RequestInit | undefined) => number | undefined;
}

/** What has a link can be cut anywhere. */
export function spareNothing({ headers }: Response): number | undefined {
  return headers.has("link") ? 0 : undefined;
}

/** What has none must bring an event before it can be picked up, and the opening of a session never can. */
export function spareFirstEvent(_: Response, init: RequestInit | undefined): number | undefined {
  return typeof init?.body === "string" && init.body.includes('"initialize"') ? undefined : 120;
}

/** Nor what was picked up: with no event on it, SDKs forget where they were. */
export function sparePickedUp(response: Response, init: RequestInit | undefined) {
  return init?.method === "POST" ? spareFirstEvent(response, init) : undefined;
}

/**
 * A fetch whose connections break, at places that only look random: before the server hears of a request to a
 * link, after it has, or after so many bytes of a stream of events.
 */
export function cutting(fetch: FetchLike, { random, spare }: CuttingOptions): FetchLike {
  return async (input, init) => {
    const fate = String(input).includes("/resume/") ? random.int(0, 6) : 5;
    if (fate === 0) throw new TypeError("cut before the request");
    const response = await fetch(input, init);
    if (fate === 1) {
      await response.body?.cancel();
      throw new TypeError("cut before the answer");
    }
    const type = response.headers.get("content-type") ?? "";
    const spared = spare(response, init);
    if (!type.startsWith("text/event-stream") || !response.body || spared === undefined)
      return response;
    return new Response(cutAfter(response.body, random.int(spared, spared + 1_000)), response);
  };
}

function cutAfter(body: ReadableStream<Uint8Array>, bytes: number): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let left = bytes;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      if (value.byteLength <= left) {
        left -= value.byteLength;
        return controller.enqueue(value);
      }
      // what was sent before the break arrives
      if (left > 0) controller.enqueue(value.slice(0, left));
      await reader.cancel();
      setTimeout(() => controller.error(new TypeError("cut in the answer")), 0);
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** When a {@link Cutter} cuts. */
export interface CutterOptions {
  /** Milliseconds that a connection may last, whatever is under way on it. */
  readonly connectionMs?: number;
  /** Milliseconds that a stream of events may last. What is asked before it, and after it, is never cut. */
  readonly streamMs?: number;
}

/** A proxy that ends connections. */
export interface Cutter extends Listening {
  /** Connections that were ended so. */
  readonly cuts: () => number;
  /** Resolves when one is ended. */
  readonly nextCut: () => Promise<void>;
}

/** Starts one in front of whatever port is behind it when a connection begins. */
export async function startCutter(
  port: () => number,
  { connectionMs, streamMs }: CutterOptions = {},
): Promise<Cutter> {
  const open = new Set<Socket>();
  const waiting = new Set<() => void>();
  let cuts = 0;
  const server = createServer((near) => {
    const far = connect(port(), "127.0.0.1");
    const cutIn = (ms: number | undefined): NodeJS.Timeout | undefined =>
      ms === undefined ? undefined : setTimeout(cut, ms);
    const cut = (): void => {
      cuts += 1;
      near.destroy();
      far.destroy();
      for (const wake of waiting) wake();
      waiting.clear();
    };
    const ofConnection = cutIn(connectionMs);
    let ofStream: NodeJS.Timeout | undefined;
    far.on("data", (bytes: Buffer) => {
      if (bytes.includes("text/event-stream")) ofStream ??= cutIn(streamMs);
      if (!bytes.subarray(-lastChunk.length).equals(lastChunk)) return;
      clearTimeout(ofStream);
      ofStream = undefined;
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        clearTimeout(ofConnection);
        clearTimeout(ofStream);
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  const listening = await listen(server);
  return {
    ...listening,
    cuts: () => cuts,
    nextCut: () => new Promise((resolve) => void waiting.add(resolve)),
    async close() {
      for (const socket of open) socket.destroy();
      await listening.close();
    },
  };
}

/** The end of an answer in chunks (RFC 9112, section 7.1). */
const lastChunk = Buffer.from("0\r\n\r\n");
