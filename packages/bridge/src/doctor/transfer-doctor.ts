import { SluiceError, type FetchLike } from "@sluice/core";
import { systemClock, within, type Clock } from "@sluice/core/internal";
import { codes, type Members } from "../messages/messages.ts";
import { SendError } from "../upstream/send-fault.ts";
import { examine as examineServer, type Diagnosis, type DiagnoseOptions } from "./diagnose.ts";

interface FailedTransfer {
  readonly direction: "download" | "upload";
  /** Resource that was wanted; undefined for links and uploads. */
  readonly uri?: string | undefined;
}

interface TransferDoctorOptions {
  /** Origins beside the server's own that bytes may come from. */
  readonly trustedOrigins: readonly string[];
  /** Default: that of `examine`. */
  readonly examine?: ((url: URL, options: DiagnoseOptions) => Promise<Diagnosis>) | undefined;
  /** Default: that of the platform. */
  readonly clock?: Clock | undefined;
}

/**
 * Says why transfers of a bridge failed: looks at the server at `url` after one did, one diagnosis at a time, and at
 * most one a minute.
 */
export class TransferDoctor {
  readonly #url: URL;
  readonly #trustedOrigins: readonly string[];
  readonly #examine: (url: URL, options: DiagnoseOptions) => Promise<Diagnosis>;
  readonly #clock: Clock;
  #headers: Readonly<Record<string, string>> = {};
  #nextAt = -Infinity;

  constructor(url: URL, options: TransferDoctorOptions) {
    this.#url = url;
    const { trustedOrigins, examine = examineServer, clock = systemClock } = options;
    this.#trustedOrigins = trustedOrigins;
    this.#examine = examine;
    this.#clock = clock;
  }

  /** Wraps the `fetch` of messages: their credentials are those of a diagnosis. */
  watch(fetch: FetchLike): FetchLike {
    return (input, init) => {
      if (String(input) === this.#url.href) this.#headers = credentialsIn(init?.headers);
      return fetch(input, init);
    };
  }

  /**
   * What to add to the words of an error: the cause and what to change. Undefined if no network can have caused it,
   * within a minute after the last diagnosis, and if none is found within 5 s. Rejects only with the abort's reason.
   */
  async causeOf(
    error: unknown,
    transfer: FailedTransfer,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (!isOfNetwork(error) || this.#clock.now() < this.#nextAt) return undefined;
    this.#nextAt = this.#clock.now() + paceMs;
    const stop = new AbortController();
    const ends = AbortSignal.any([signal, stop.signal]);
    try {
      const deadline = { timeoutMs: deadlineMs, expired: late, signal, clock: this.#clock };
      const { server, findings } = await within(this.#examineNow(transfer, ends), deadline);
      const [first] = findings;
      // with a session, it says no more than that the time was short
      if (!first || (server && first.cause === "connection")) return undefined;
      return first.message.slice(0, longestCause);
    } catch {
      signal.throwIfAborted();
      return undefined;
    } finally {
      stop.abort(new SluiceError("interrupted", "bridge: the diagnosis has ended"));
    }
  }

  #examineNow(transfer: FailedTransfer, signal: AbortSignal): Promise<Diagnosis> {
    const { direction, uri } = transfer;
    return this.#examine(this.#url, {
      headers: this.#headers,
      trustedOrigins: this.#trustedOrigins,
      uri,
      direction,
      signal,
      watchMs,
      timeoutMs,
    });
  }
}

/**
 * The transfer that a call of one of the bridge's tools asks for. A link is not a resource: looking at it may use it
 * up.
 */
export function transferIn(tool: string, { uri }: Members): FailedTransfer {
  if (tool === "send_file") return { direction: "upload" };
  const isResource = typeof uri === "string" && !/^https?:/i.test(uri);
  return { direction: "download", uri: isResource ? uri : undefined };
}

/** Milliseconds from the beginning of one diagnosis to the next: longer than one takes. */
const paceMs = 60_000;
const watchMs = 500;
/** The end of a session takes up to a second more. */
const timeoutMs = 3_900;
const deadlineMs = 5_000;
const longestCause = 600;

function late(): SluiceError {
  return new SluiceError("timeout", "bridge: the diagnosis takes too long");
}

/**
 * True for faults of the network, and of what stands in it. False for what the server, the user or the disk decided, and
 * for addresses that were refused.
 */
function isOfNetwork(error: unknown): boolean {
  if (SluiceError.is(error))
    // a size that a proxy refused, and not the bridge or the server
    return networkCodes.has(error.code) || (error.code === "too_large" && error.origin === "http");
  // a message that did not arrive, or a response that the bridge made in place of the server's
  if (error instanceof SendError) return error.fault.kind !== "answered";
  const { name, code } = (error ?? {}) as { readonly name?: unknown; readonly code?: unknown };
  return name === "RpcError" && code === codes.noConnection;
}

const networkCodes: ReadonlySet<string> = new Set([
  "unavailable",
  "timeout",
  "interrupted",
  "corrupt",
  "protocol",
  "unauthenticated",
  "expired",
]);

/** Headers that every message has, without those of the one message and its session. */
function credentialsIn(messageHeaders: RequestInit["headers"]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of new Headers(messageHeaders))
    if (!ofOneMessage.test(name)) headers[name] = value;
  return headers;
}

const ofOneMessage = /^(?:mcp-.*|accept|content-.*|last-event-id|connection|host)$/;
