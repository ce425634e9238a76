import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { ResultGap, sleep } from "@sluice/core/internal";
import { linesOf, LineWriter, readLine } from "../upstream/line-transport.ts";

/** Options of {@link createStdioHost}. */
export interface StdioHostOptions {
  /** Default: standard input of this process. */
  readonly input?: Readable | undefined;
  /** Default: standard output of this process. */
  readonly output?: Writable | undefined;
  /** Largest message to take from the host, in bytes. Default: 32 MiB. */
  readonly maxMessageBytes?: number | undefined;
}

/** The host's end of a bridge: lines of JSON over standard input and output. It closes when the input ends. */
export function createStdioHost({
  input = process.stdin,
  output = process.stdout,
  maxMessageBytes = 32 * 2 ** 20,
}: StdioHostOptions = {}): Transport {
  let isClosed = false;
  const gap = new ResultGap();
  const lines = new LineWriter(output);
  /** The result that waits for its turn, and what is sent after it. */
  let lastTurn: Promise<void> | undefined;

  function send(message: JSONRPCMessage): Promise<void> {
    const waitMs = gap.waitMs(message);
    if (!lastTurn && waitMs === 0) return lines.write(message);
    const turn = Promise.all([lastTurn, sleep(waitMs)]);
    const sending = turn.then(() => lines.write(message));
    const next = sending
      .catch(() => {})
      .finally(() => {
        if (lastTurn === next) lastTurn = undefined;
      });
    lastTurn = next;
    return sending;
  }

  async function read(): Promise<void> {
    try {
      for await (const line of linesOf(input, maxMessageBytes)) {
        const { message, fault } = readLine(line, maxMessageBytes);
        if (isClosed) return;
        // what is too long is answered here, and never passed on
        if (message && typeof line !== "string") await host.send(message);
        else if (message) host.onmessage?.(message);
        else host.onerror?.(new SluiceError("protocol", `bridge: from the host: ${fault}`));
      }
    } catch (error) {
      if (!isClosed) host.onerror?.(error as Error);
    } finally {
      void host.close();
    }
  }

  const host: Transport = {
    start: () => {
      output.on("error", () => void host.close());
      void read();
      return Promise.resolve();
    },
    send,
    close: () => {
      if (isClosed) return Promise.resolve();
      isClosed = true;
      input.destroy();
      host.onclose?.();
      return Promise.resolve();
    },
  };
  return host;
}
