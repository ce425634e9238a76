import { once } from "node:events";
import { PassThrough } from "node:stream";
import { onTestFinished } from "vitest";
import { StdioChannel, type StdioLimits } from "../src/channel/stdio-channel.ts";

type Message = Record<string, any>;

/** A peer that writes and reads bytes by itself, and the channel that it talks to. */
export interface RawPeer {
  readonly channel: StdioChannel;
  /** Messages that the channel handed on. */
  readonly messages: Message[];
  /** Faults of single messages and transfers. */
  readonly faults: Error[];
  /** Why the channel ended, once it has. */
  readonly closed: Promise<Error | undefined>;
  write(...parts: readonly (object | Uint8Array)[]): void;
  /** Next line that the channel wrote. */
  line(): Promise<Message>;
  /** As many bytes as that. */
  bytes(count: number): Promise<Buffer>;
  /** Bytes written and not read yet. */
  pending(): number;
  end(): void;
}

export function rawPeer(role: "server" | "client", limits: StdioLimits = {}): RawPeer {
  const input = new PassThrough();
  const output = new PassThrough({ highWaterMark: 2 ** 22 });
  const messages: Message[] = [];
  const faults: Error[] = [];
  let close: (error?: Error) => void = () => {};
  const closed = new Promise<Error | undefined>((resolve) => (close = resolve));
  const channel = new StdioChannel(
    role,
    { input, output },
    {
      message: (message) => messages.push(message),
      fault: (error) => faults.push(error),
      closed: close,
    },
    limits,
  );
  onTestFinished(() => channel.close());

  async function take(measure: () => number): Promise<Buffer> {
    for (;;) {
      const count = measure();
      if (count >= 0) return count === 0 ? Buffer.alloc(0) : (output.read(count) as Buffer);
      await once(output, "readable");
    }
  }

  return {
    channel,
    messages,
    faults,
    closed,
    write(...parts) {
      for (const part of parts)
        input.write(part instanceof Uint8Array ? part : `${JSON.stringify(part)}\n`);
    },
    async line() {
      let length = 0;
      const text = await take(() => {
        const all = output.read() as Buffer | null;
        if (!all) return -1;
        output.unshift(all);
        length = all.indexOf(10) + 1;
        return length || -1;
      });
      return JSON.parse(text.toString()) as Message;
    },
    bytes: (count) => take(() => (output.readableLength >= count ? count : -1)),
    pending: () => output.readableLength,
    end: () => void input.end(),
  };
}
