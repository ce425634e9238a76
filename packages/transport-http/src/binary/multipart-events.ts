import type { RpcMessage } from "@sluice/core";
import type { ServerEvent } from "@sluice/binary-transfer/transport";

/** What a stream of events begins with. */
export type FirstMessage =
  | { readonly message: RpcMessage; readonly rest?: never }
  | { readonly rest: ReadableStream<Uint8Array>; readonly message?: never };

/** What is done with a stream of events. */
export interface FirstMessageOptions {
  /** True for the message that would be the whole answer if it came first. */
  readonly isWanted: (message: object) => boolean;
  /** An event as it is to go on, when it did not come first. */
  readonly rewrite: (event: ServerEvent) => Promise<string>;
  /** The stream that goes on is over, however it ended. */
  readonly onEnd: () => void;
}

/**
 * Waits for the first message in a stream of events. Gives it, and ends the stream, when it is the one that is
 * wanted; else all of the stream, each event as `rewrite` has it.
 */
export async function firstMessage(
  events: AsyncGenerator<ServerEvent, void, undefined>,
  options: FirstMessageOptions,
): Promise<FirstMessage> {
  const passed: ServerEvent[] = [];
  for (let step = await events.next(); !step.done; step = await events.next()) {
    const { message } = step.value;
    if (message && options.isWanted(message)) {
      await events.return();
      return { message };
    }
    passed.push(step.value);
    if (message) break;
  }
  return { rest: streamOf(passed, events, options) };
}

function streamOf(
  passed: ServerEvent[],
  events: AsyncGenerator<ServerEvent, void, undefined>,
  { rewrite, onEnd }: FirstMessageOptions,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const event = passed.shift() ?? (await events.next()).value;
          if (event) return controller.enqueue(new TextEncoder().encode(await rewrite(event)));
          onEnd();
          controller.close();
        } catch (error) {
          onEnd();
          throw error;
        }
      },
      async cancel() {
        onEnd();
        await events.return();
      },
    },
    { highWaterMark: 0 },
  );
}
