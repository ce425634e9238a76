import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import type { Outlet } from "@sluice/binary-transfer";
import { SluiceError } from "@sluice/core";
import { StdioChannel, type StdioLimits } from "./stdio-channel.ts";

/** Options of {@link createStdioServerTransport}. */
export interface StdioServerTransportOptions extends StdioLimits {
  /** Default: of this process. */
  readonly stdin?: Readable;
  readonly stdout?: Writable;
}

/** The server's end of two pipes, for both SDK versions. */
export class StdioServerTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport["onmessage"]>;
  readonly #options: StdioServerTransportOptions;
  #channel: StdioChannel | undefined;

  constructor(options: StdioServerTransportOptions) {
    this.#options = options;
  }

  /** Where bytes go beside requests and notifications of the server; `undefined` when the client takes none. */
  get outlet(): Outlet | undefined {
    return this.#channel?.outlet;
  }

  async start(): Promise<void> {
    if (this.#channel) throw new TypeError("stdio: the transport was started already");
    const { stdin = process.stdin, stdout = process.stdout, ...limits } = this.#options;
    this.#channel = new StdioChannel(
      "server",
      { input: stdin, output: stdout },
      {
        message: (message) => this.onmessage?.(message as JSONRPCMessage),
        fault: (error) => this.onerror?.(error),
        closed: (error) => {
          // lets the process end
          stdin.pause();
          if (error) this.onerror?.(error);
          this.onclose?.();
        },
      },
      limits,
    );
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (!this.#channel) throw new SluiceError("interrupted", "stdio: send: not started");
    await this.#channel.send(message);
  }

  /** Ends transfers in progress and stops reading. The pipes stay open. */
  async close(): Promise<void> {
    this.#channel?.close();
  }
}
