import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { ResultGap, sleep } from "@sluice/core/internal";
import { refusal } from "../messages/messages.ts";
import type { UnreadText } from "../messages/read-message.ts";
import { linesOf, LineWriter, readLine, unreadableAnswer } from "../upstream/line-transport.ts";

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
        const parsed = readLine(line, maxMessageBytes);
        if (isClosed) return;
        // what is too long is answered here, and never passed on
        if (parsed?.message && typeof line !== "string") await host.send(parsed.message);
        else if (parsed?.message) host.onmessage?.(parsed.message);
        else if (parsed) refuse(parsed);
      }
    } catch (error) {
      if (!isClosed) host.onerror?.(error as Error);
    } finally {
      void host.close();
    }
  }

  /** Answers the requests in a text, and the server's that it answers; if there are none, the text itself. */
  function refuse({ fault: { code, message }, requests, responses, others }: UnreadText): void {
    host.onerror?.(new SluiceError("protocol", `bridge: from the host: ${message}`));
    for (const id of responses) host.onmessage?.(unreadableAnswer(id, message, "client"));
    // JSON-RPC 2.0 §5: the id is null where it cannot be told
    const ids = [...requests, ...others];
    if (ids.length + responses.length === 0) ids.push(null as unknown as RequestId);
    for (const id of ids) void send(refusal(id, code, message)).catch(() => {});
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
