import { SdkError, SdkErrorCode, type ServerContext } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { onAbort } from "@sluice/core/internal";
import { tagOf } from "../access/principal.ts";
import { createByteAccount, type ByteAccount, type ByteLease } from "../limits/byte-account.ts";
import { shareOf, type CompleteLimits } from "../limits/share.ts";
import { takePermits, type StreamLimiter } from "../limits/stream-limiter.ts";
import { notesOf } from "./exchange.ts";

interface AnswerCaller {
  readonly ctx: ServerContext;
  readonly principal: Principal | undefined;
  readonly address: string | undefined;
  /** Permits of the mount that is read, where it has limits of its own. */
  readonly mountLimiter: StreamLimiter | undefined;
}

/** Counts the bytes of responses of one server, from before they are made until they are sent. */
export class AnswerLeases {
  readonly #limiter: StreamLimiter;
  readonly #account: ByteAccount;
  readonly #limits: CompleteLimits;

  constructor(limiter: StreamLimiter, limits: CompleteLimits) {
    this.#limiter = limiter;
    this.#account = createByteAccount(limits.perProcess);
    this.#limits = limits;
  }

  /** Opens a lease of nothing for a response to a caller: the tag of its principal, and its address. */
  open(principal: string | undefined, address: string | undefined): ByteLease {
    return this.#account.open(shareOf(this.#limits, principal, address));
  }

  /**
   * Makes a response that holds a permit of the streams and a lease for its bytes. Both are held until the response is
   * sent, if the transport reports that. Otherwise, and for a response that will not be sent, until `make` has settled.
   */
  async hold<Answer>(
    { ctx, principal, address, mountLimiter }: AnswerCaller,
    make: (lease: ByteLease) => Promise<Answer>,
  ): Promise<Answer> {
    const tag = tagOf(principal);
    const leave = takePermits(this.#limiter, mountLimiter, tag, address);
    const lease = this.open(tag, address);
    const { signal, id } = ctx.mcpReq;
    let stopWatching: (() => void) | undefined;
    const release = (): void => {
      stopWatching?.();
      lease.release();
      leave();
    };
    try {
      const answer = await make(lease);
      const { sentListener } = notesOf(ctx.http?.req);
      if (!sentListener || signal.aborted) release();
      else {
        stopWatching = onAbort(signal, (reason) => {
          if (isCancelled(reason)) release();
        });
        sentListener.onSent(id, release);
      }
      return answer;
    } catch (error) {
      release();
      throw error;
    }
  }
}

/** False for the end of the connection: bytes of the response may still be on their way. The SDK answers no cancelled request. */
function isCancelled(reason: unknown): boolean {
  return !(reason instanceof SdkError) || reason.code !== SdkErrorCode.ConnectionClosed;
}

/** Bytes that a response takes in memory, before its content is read: as base64, and its metadata. */
export function expectedBytes(size: number): number {
  return copies * (Math.ceil(size / 3) * 4 + metadataBytes);
}

/** The same when it was read; a control character in text takes six. */
export function answerBytes({ bytes, text }: { bytes: Uint8Array; text?: string }): number {
  if (text === undefined) return expectedBytes(bytes.byteLength);
  let escapes = 0;
  for (const byte of bytes) {
    if (byte < 0x20) escapes += 5;
    else if (byte === 0x22 || byte === 0x5c) escapes += 1;
  }
  return copies * (bytes.byteLength + escapes + metadataBytes);
}

/** Content as a string, JSON with it, and its bytes for the network: seen in the heap of Node 20 until the response is sent. */
const copies = 3;

const metadataBytes = 1_024;
