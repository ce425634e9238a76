import { type ChildProcess, spawn } from "node:child_process";
import { WebSocket } from "ws";
import type { Answering, Connecting, Peer } from "./http-client.ts";
import { greeting, must, requestOf, type Json, type Message } from "./message.ts";

/** A channel that carries messages both ways, and bytes between them. */
interface Channel {
  send(message: Message): void;
  close(): Promise<void>;
}

/** A client on a WebSocket or on the pipes of a process. */
export interface ChannelPeer extends Peer {
  /** What came between messages: frames of a WebSocket, or bytes behind a line. */
  readonly blocks: Buffer[];
}

type Opening = (deliver: (message: Message) => void, blocks: Buffer[]) => Promise<Channel>;

/** Connects over a WebSocket with the subprotocol `mcp`. */
export const connectSocket = (url: string, connecting: Connecting): Promise<ChannelPeer> =>
  connect(connecting, async (deliver, blocks) => {
    const headers = connecting.token ? { authorization: `Bearer ${connecting.token}` } : {};
    const socket = new WebSocket(url, "mcp", { headers });
    socket.on("message", (data: Buffer, binary) => {
      if (binary) blocks.push(Buffer.from(data));
      else deliver(JSON.parse(data.toString()) as Message);
    });
    await new Promise<void>((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", reject);
    });
    return {
      send: (message) => socket.send(JSON.stringify(message)),
      close: async () => {
        const closed = new Promise((resolve) => socket.once("close", resolve));
        socket.close();
        await closed;
      },
    };
  });

/** Bytes behind a line: gives how many belong to it, as far as `rest` shows. */
export type Behind = (message: Message, rest: Buffer) => number | undefined;

/** Connects to a process by lines of JSON. `behind` says which bytes follow a line that are none. */
export const connectStdio = (
  command: readonly string[],
  connecting: Connecting,
  behind: Behind = () => 0,
): Promise<ChannelPeer> =>
  connect(connecting, async (deliver, blocks) => {
    const [program, ...args] = command;
    const child = spawn(program!, args, { stdio: ["pipe", "pipe", "inherit"] });
    let rest = Buffer.alloc(0);
    let before: Message | undefined;
    child.stdout.on("data", (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        if (before) {
          const size = behind(before, rest);
          if (size === undefined || rest.length < size) return;
          if (size > 0) blocks.push(rest.subarray(0, size));
          rest = rest.subarray(size);
          const message = before;
          before = undefined;
          deliver(message);
        }
        const end = rest.indexOf("\n");
        if (end < 0) return;
        before = JSON.parse(rest.subarray(0, end).toString()) as Message;
        rest = rest.subarray(end + 1);
      }
    });
    return {
      send: (message) => child.stdin.write(`${JSON.stringify(message)}\n`),
      close: () => ended(child),
    };
  });

async function ended(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.stdin!.end();
  const late = setTimeout(() => child.kill(), 2_000);
  if (child.exitCode === null && child.signalCode === null) await exited;
  clearTimeout(late);
}

async function connect(connecting: Connecting, open: Opening): Promise<ChannelPeer> {
  const { revision, capabilities, token } = connecting;
  const blocks: Buffer[] = [];
  const waiting = new Map<number, (message: Message) => void>();
  let answering: Answering | undefined;
  let lastId = 0;
  const channel = await open((message) => {
    if (message.method === undefined) {
      waiting.get(message.id as number)?.(message);
      waiting.delete(message.id as number);
    } else if (message.id !== undefined && answering) {
      void answering(message.method, message.params ?? {}).then((result) =>
        channel.send({ jsonrpc: "2.0", id: message.id!, result }),
      );
    }
  }, blocks);
  const call = async (method: string, params: Json, answers?: Answering): Promise<Message> => {
    const id = ++lastId;
    answering = answers;
    let late: NodeJS.Timeout | undefined;
    const answered = new Promise<Message>((resolve, reject) => {
      waiting.set(id, resolve);
      late = setTimeout(() => reject(new Error(`${method} had no answer for 20 s`)), 20_000);
    });
    channel.send(requestOf(revision, id, method, params, capabilities));
    return answered.finally(() => clearTimeout(late));
  };
  const first = greeting(revision, capabilities);
  const { result } = await call(first.method, first.params);
  must(result !== undefined, "the server greets its client");
  if (revision === "2025-11-25") {
    channel.send({ jsonrpc: "2.0", method: "notifications/initialized" });
  }
  return {
    revision,
    capabilities: result["capabilities"] as Json,
    credentials: token ? { authorization: `Bearer ${token}` } : {},
    blocks,
    call,
    [Symbol.asyncDispose]: () => channel.close(),
  };
}
