import { blobOf } from "../src/net/outgoing-body.ts";
import { createFetchExchange } from "../src/net/fetch-exchange.ts";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";
import { blobSource, type FileSource } from "../src/upload/source/file-source.ts";
import { sendFiles, type Shipment } from "../src/upload/send/send-files.ts";
import {
  sendTimeouts,
  type SendTimeouts,
  createBlindSender,
  createSender,
  type Sender,
} from "../src/upload/send/sender.ts";
import { ClientSession, acceptTarget, type UploadTarget } from "../src/upload/upload-target.ts";
import type { SentFile } from "../src/upload/send/outgoing-file.ts";

/** Both ways that requests go out. */
export const senders: Record<string, Sender> = {
  "Node's HTTP client": createSender(createHttpExchange()),
  fetch: createBlindSender(createFetchExchange((input, init) => fetch(input, init), { blobOf })),
};

/** A token that must never be seen anywhere else, and the header that has it. */
export const token = "only-for-the-endpoint";
export const bearer = `Bearer ${token}`;

export interface SendingOptions {
  readonly sender?: Sender;
  readonly wire?: UploadTarget["wire"];
  readonly trustedOrigins?: readonly string[];
  /** Origin of the MCP endpoint; the server's own by default. */
  readonly endpoint?: string;
  readonly auth?: "bound" | "self";
  readonly headers?: Record<string, string>;
  readonly timeouts?: Partial<SendTimeouts>;
  readonly signal?: AbortSignal;
  readonly token?: () => string;
  readonly onSent?: Shipment["onSent"];
  readonly begun?: NonNullable<Shipment["begun"]>;
}

/** Sends files to `<origin>/up`. */
export function send(
  origin: string,
  sources: readonly FileSource[],
  options: SendingOptions = {},
): Promise<readonly SentFile[]> {
  const { wire = "resumable", auth = "bound", trustedOrigins = [], headers, begun } = options;
  const session = new ClientSession(
    new URL(`${options.endpoint ?? origin}/mcp`),
    options.token ?? (() => token),
  );
  const trust = { session, trustedOrigins };
  const claim = {
    url: `${origin}/up`,
    method: "POST",
    wire,
    auth,
    sessionBound: false,
    ...(headers && { headers }),
  } as const;
  const { signal = new AbortController().signal, onSent = () => {} } = options;
  return sendFiles(
    { sources, target: acceptTarget(claim, trust), signal, onSent, ...(begun && { begun }) },
    {
      sender: options.sender ?? senders["Node's HTTP client"]!,
      trust,
      timeouts: { ...sendTimeouts, pauseScale: 0.001, ...options.timeouts },
    },
  );
}

/** A source over bytes. */
export function bytesSource(
  bytes: Buffer,
  name = "a.bin",
  mimeType = "application/octet-stream",
): FileSource {
  return blobSource(new Blob([bytes]), { name, mimeType, isTypeGuessed: false });
}
