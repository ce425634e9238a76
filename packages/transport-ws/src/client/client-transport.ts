import { SluiceError } from "@sluice/core";
import { abortable, readRpc, sleep, TurnQueue, within } from "@sluice/core/internal";
import type { JSONRPCMessage, Transport, RequestId } from "@modelcontextprotocol/client";
import type { Outlet } from "@sluice/binary-transfer/client";
import { outletTo, type BinaryLimits } from "@sluice/binary-transfer/internal";
import { type BinaryChannel, createBinaryChannel } from "../binary/binary-channel.ts";
import { brokenBy, closingOf, closings, type Closing } from "../messages/closing.ts";
import { PendingRequests } from "./pending-requests.ts";
import type { OpenSocket, SocketPort } from "./socket-port.ts";
import type { ClientTransportOptions, ReconnectOptions } from "./transport-options.ts";

/** A connection, and what goes beside its messages. */
interface Line {
  readonly socket: SocketPort;
  readonly binary: BinaryChannel | undefined;
}

/** MCP over WebSocket for the clients of both SDK versions. */
export class WebSocketClientTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport["onmessage"]>;
  /** By these the SDK knows a channel on which a legacy server may not answer `server/discover`. */
  readonly stderr: undefined;
  readonly pid: undefined;
  readonly #open: OpenSocket;
  readonly #options: ClientTransportOptions;
  readonly #pending = new PendingRequests();
  readonly #handshake = new HandshakeMemory();
  readonly #ended = new AbortController();
  #line: Line | undefined;
  /** The connection that is being made, or was made last. */
  #next: Promise<Line> | undefined;
  /** Last declaration of the server. In stateless revisions it is not requested again on a new connection. */
  #serverCapabilities: unknown;
  #waiting = 0;
  #tries = 0;
  #connectedAt = 0;

  constructor(open: OpenSocket, options: ClientTransportOptions) {
    this.#open = open;
    this.#options = options;
  }

  /** IP address of the server, where the platform tells. */
  get address(): string | undefined {
    return this.#line?.socket.address;
  }

  /**
   * Where bytes can go beside a message to the server, for `binaryContent` of
   * `@sluice/binary-transfer/client`; `undefined` while it takes none.
   */
  get outlet(): Outlet | undefined {
    const { binary } = this.#line ?? {};
    return binary && outletTo(binary.peer);
  }

  /** Connects. Rejects when that fails: the first connection is not tried twice. */
  async start(): Promise<void> {
    if (this.#next) throw new TypeError("ws: the transport was started already");
    this.#next = this.#connect();
    this.#adopt(await this.#next);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    // no message overtakes those that wait
    const line = (this.#waiting === 0 && this.#line) || (await this.#whenConnected());
    if (!this.#pending.mayAnswer(message)) return;
    if (line.socket.bufferedAmount > (this.#options.maxBufferedBytes ?? 2 ** 24))
      throw new SluiceError(
        "throttled",
        "ws: send: the server reads nothing; wait before you send more",
      );
    this.#handshake.sent(message);
    this.#pending.sent(message);
    say(line, message);
  }

  async close(): Promise<void> {
    this.#end(closings.done);
  }

  /** A message waits for a connection that is being made; it was not sent yet. */
  async #whenConnected(): Promise<Line> {
    if (!this.#next) throw new SluiceError("unavailable", "ws: send: the transport is closed");
    if (this.#waiting >= maxWaiting)
      throw new SluiceError("throttled", "ws: send: too many messages wait for a connection");
    this.#waiting += 1;
    try {
      return await this.#next;
    } finally {
      this.#waiting -= 1;
    }
  }

  /** Takes a new connection into use, unless the end came first. */
  #adopt(line: Line): void {
    const { signal } = this.#ended;
    if (signal.aborted) {
      closeLine(line);
      throw signal.reason;
    }
    this.#line = line;
    this.#connectedAt = performance.now();
  }

  async #connect(): Promise<Line> {
    const { connectMs = 10_000 } = this.#options;
    const gaveUp = new AbortController();
    const deadline = {
      timeoutMs: connectMs,
      expired: () => new SluiceError("timeout", `ws: no connection within ${connectMs} ms`),
      signal: this.#ended.signal,
    };
    try {
      return await within(this.#openLine(gaveUp.signal), deadline, closeLine);
    } catch (error) {
      gaveUp.abort(error);
      throw error;
    }
  }

  /** Opens a socket, and repeats the handshake of the connection before. */
  async #openLine(signal: AbortSignal): Promise<Line> {
    let socket: SocketPort | undefined;
    const binary = this.#openBinary(() => socket);
    let answered: ((message: JSONRPCMessage) => void) | undefined;
    let broke: ((error: Error) => void) | undefined;
    const repeat = this.#handshake.repeat();
    const turns = new TurnQueue();
    socket = await this.#open(
      {
        text: (data) => {
          const message = this.#read(data, binary);
          if (!message) return;
          if (repeat && "id" in message && message.id === repeat.id) answered?.(message);
          else turns.run(() => this.#receive(message));
        },
        binary: (data) => {
          if (binary && binary.readFrame(data) !== "refused") return;
          this.#fail(closings.binary, "sent a binary frame");
        },
        closed: (code, reason) => {
          broke?.(brokenBy(code, reason));
          binary?.close(brokenBy(code, reason));
          turns.run(() => {
            if (socket && this.#line?.socket === socket) this.#lost(code, reason);
          });
        },
      },
      signal,
    );
    const line = { socket, binary };
    if (!repeat) return line;
    try {
      const answering = new Promise<JSONRPCMessage>((resolve, reject) => {
        answered = resolve;
        broke = reject;
        say(line, repeat.request);
      });
      if (!repeat.accepts(await abortable(answering, signal)))
        throw new SluiceError("protocol", "ws: the server now speaks another revision; reconnect");
      say(line, repeat.confirmation);
      return line;
    } catch (error) {
      closeLine(line);
      throw error;
    }
  }

  #read(data: string, binary: BinaryChannel | undefined): JSONRPCMessage | undefined {
    // a connection that was closed may still bring messages in progress
    if (this.#ended.signal.aborted) return undefined;
    const read = readRpc(data);
    if (read.fault) {
      this.#fail(closingOf(read.fault), "sent an invalid JSON-RPC message");
      return undefined;
    }
    const message = read.message as JSONRPCMessage;
    if (!binary) return message;
    if ("result" in message)
      this.#serverCapabilities = message.result["capabilities"] ?? this.#serverCapabilities;
    return binary.read(message).message;
  }

  #openBinary(socket: () => SocketPort | undefined): BinaryChannel | undefined {
    const { binary, maxBufferedBytes = 2 ** 24 } = this.#options;
    if (!binary) return undefined;
    const capabilities = this.#serverCapabilities;
    const onError = (error: unknown): void => this.onerror?.(error as Error);
    return createClientChannel(socket, {
      ...binary,
      declared: capabilities,
      maxBufferedBytes,
      onError,
    });
  }

  #receive(message: JSONRPCMessage): void {
    this.#tries = 0;
    this.#handshake.received(message);
    this.#pending.received(message);
    this.onmessage?.(message);
  }

  /** The server broke the protocol: another connection would bring the same. */
  #fail(closing: Closing, what: string): void {
    if (this.#ended.signal.aborted) return;
    this.onerror?.(new SluiceError("protocol", `ws: the server ${what}`));
    this.#end(closing);
  }

  #lost(code: number, reason: string): void {
    this.#line = undefined;
    const { reconnect = {} } = this.#options;
    const error = brokenBy(code, reason);
    if (reconnect === false || finalCodes.has(code)) {
      this.onerror?.(error);
      return this.#end(closings.done);
    }
    if (performance.now() - this.#connectedAt > (reconnect.maxMs ?? longestPauseMs))
      this.#tries = 0;
    this.#next = this.#reconnect(reconnect, error);
    // a request that waits for it is rejected; without one the error has no reader
    this.#next.catch(() => {});
    for (const message of this.#pending.lose()) this.onmessage?.(message);
  }

  async #reconnect(options: ReconnectOptions, reason: SluiceError): Promise<Line> {
    let error: unknown = reason;
    const { signal } = this.#ended;
    while (this.#tries < (options.maxAttempts ?? 8) && isTemporary(error)) {
      const retryAfterMs = SluiceError.is(error) ? (error.retryAfterMs ?? 0) : 0;
      await sleep(retryAfterMs + backoffMs(this.#tries, options), signal);
      this.#tries += 1;
      try {
        const line = await this.#connect();
        this.#adopt(line);
        this.#options.onReconnect?.();
        return line;
      } catch (caught) {
        signal.throwIfAborted();
        error = caught;
      }
    }
    this.#next = undefined;
    this.onerror?.(error as Error);
    this.#end(closings.done);
    throw error;
  }

  /** The end for good. The SDK rejects what is pending. */
  #end(closing: Closing): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort(new SluiceError("unavailable", "ws: the transport was closed"));
    const line = this.#line;
    this.#line = undefined;
    this.#next = undefined;
    line?.socket.close(closing);
    this.onclose?.();
  }
}

/** Sends a message, and behind it what it refers to. */
function say({ socket, binary }: Line, message: JSONRPCMessage): void {
  const { text, follow } = binary?.write(message) ?? { text: JSON.stringify(message) };
  socket.send(text);
  void follow?.();
}

function closeLine({ socket }: Line): void {
  socket.close(closings.done);
}

const maxWaiting = 256;

/** Default of `maxMs`. */
const longestPauseMs = 30_000;

/**
 * Milliseconds to wait before try number `tries`, counted from 0: anything up to a bound that doubles
 * ("full jitter"), so that the clients of a server that restarts do not come back all at once.
 */
function backoffMs(
  tries: number,
  { baseMs = 500, maxMs = longestPauseMs }: ReconnectOptions,
): number {
  return Math.random() * Math.min(maxMs, baseMs * 2 ** tries);
}

/** The server rejects our messages: another connection would not help. */
const finalCodes: ReadonlySet<number> = new Set([1000, 1002, 1003, 1007, 1010]);

/** A fault that may pass, of a server that does not ask for more patience than messages have that wait. */
function isTemporary(error: unknown): boolean {
  return SluiceError.is(error) && error.retryable && (error.retryAfterMs ?? 0) <= maxRetryAfterMs;
}

// as for downloads; and a timer goes off at once beyond 2^31 ms
const maxRetryAfterMs = 60_000;

/** A handshake to be repeated. `accepts`: the server still speaks the revision that was agreed on. */
interface HandshakeRepeat {
  readonly id: string;
  readonly request: JSONRPCMessage;
  readonly confirmation: JSONRPCMessage;
  accepts(answer: JSONRPCMessage): boolean;
}

/** The legacy handshake of a client, to be repeated on a new connection. */
class HandshakeMemory {
  #params: object | undefined;
  #id: RequestId | undefined;
  #version: unknown;
  #repeats = 0;

  /** Looks at what the client sends and at what it gets. */
  sent(message: JSONRPCMessage): void {
    if (!("method" in message) || !("id" in message) || message.method !== "initialize") return;
    ({ id: this.#id } = message);
    this.#params = message.params;
    this.#version = undefined;
  }

  received(message: JSONRPCMessage): void {
    if (this.#id === undefined || !("result" in message) || message.id !== this.#id) return;
    this.#id = undefined;
    this.#version = message.result["protocolVersion"];
  }

  /** The handshake for a new connection. Absent if there was none, as with modern servers. */
  repeat(): HandshakeRepeat | undefined {
    if (this.#version === undefined) return undefined;
    this.#repeats += 1;
    const repeatId = `handshake-${this.#repeats}`;
    return {
      id: repeatId,
      request: {
        jsonrpc: "2.0",
        id: repeatId,
        method: "initialize",
        params: { ...this.#params, protocolVersion: this.#version },
      },
      confirmation: { jsonrpc: "2.0", method: "notifications/initialized" },
      accepts: (answer) => "result" in answer && answer.result["protocolVersion"] === this.#version,
    };
  }
}

interface ClientChannelOptions extends BinaryLimits {
  /** Capabilities that the server declared on an earlier connection. */
  readonly declared: unknown;
  /** Bytes that may wait for a server that does not read. */
  readonly maxBufferedBytes: number;
  readonly onError: (error: unknown) => void;
}

/** The client's end over a socket that may be there only later. */
function createClientChannel(
  socket: () => SocketPort | undefined,
  { maxBufferedBytes, onError, ...options }: ClientChannelOptions,
): BinaryChannel {
  let heldUp = 0;

  async function holdUp(room: Promise<void>): Promise<void> {
    heldUp += 1;
    socket()?.pause?.();
    await room;
    heldUp -= 1;
    if (heldUp === 0) socket()?.resume?.();
  }

  return createBinaryChannel("client", options, {
    sendText(text) {
      // a server that does not read could have them pile up
      if ((socket()?.bufferedAmount ?? 0) > maxBufferedBytes) socket()?.close(closings.slow);
      else socket()?.send(text);
    },
    async sendBinary(frame) {
      await socket()?.sendBinary(frame);
    },
    get canPause() {
      return socket()?.pause !== undefined;
    },
    pauseUntil: (room) => void holdUp(room),
    breakOff: () => socket()?.close(closings.fault),
    onError,
  });
}
