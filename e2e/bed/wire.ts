import { connect, createServer, type Socket } from "node:net";
import { listen, type Listening } from "./listen.ts";

/** A cable between clients and one server on this machine, that a test can cut. */
export interface Wire extends Listening {
  /** Lets `bytes` more bytes of the server pass, then ends the connection that carried the last one. */
  cutAfter(bytes: number): void;
  /** Resets every connection now and refuses new ones until {@link mend}. */
  cut(): void;
  mend(): void;
  /** Bytes that the server has sent so far. */
  readonly sent: number;
}

export async function createWire(target: () => number): Promise<Wire> {
  const ends = new Set<Socket>();
  let sent = 0;
  let cutAt = Infinity;
  let broken = false;

  const server = createServer((near) => {
    if (broken) {
      near.resetAndDestroy();
      return;
    }
    const far = connect(target(), "127.0.0.1");
    for (const [end, other] of [
      [near, far],
      [far, near],
    ] as const) {
      ends.add(end);
      end.on("close", () => {
        ends.delete(end);
        other.destroySoon();
      });
      end.on("error", () => other.destroy());
      end.on("end", () => other.end());
      end.on("drain", () => other.resume());
    }
    near.on("data", (chunk) => {
      if (!far.write(chunk)) near.pause();
    });
    far.on("data", (chunk) => {
      const room = cutAt - sent;
      sent += chunk.length;
      if (chunk.length < room) {
        if (!near.write(chunk)) far.pause();
        return;
      }
      cutAt = Infinity;
      far.pause();
      // a reset would also take back what the client has not read yet
      near.end(chunk.subarray(0, room));
      far.destroy();
    });
  });
  const listening = await listen(server);

  return {
    ...listening,
    get sent() {
      return sent;
    },
    cutAfter(bytes) {
      cutAt = sent + bytes;
    },
    cut() {
      broken = true;
      for (const end of ends) end.resetAndDestroy();
    },
    mend() {
      broken = false;
    },
    async close() {
      for (const end of ends) end.destroy();
      await listening.close();
    },
  };
}
