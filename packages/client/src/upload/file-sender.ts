/** @ts-ignore: in our declarations, users of SDK version 1 lack this package */
import type { Client } from "@modelcontextprotocol/client";
import { SluiceError, type FetchLike, type Secret } from "@sluice/core";
import {
  type BinaryElicitation,
  definedMembers,
  ensureStepBytes,
  formatContentType,
} from "@sluice/core/internal";
import { createLoader } from "../net/load-code.ts";
import type { RequestingClient } from "../calls/stream-calls.ts";
import { ensureTrustedOrigins } from "../trust/accept-url.ts";
import {
  answerRequest,
  type AnswerSettings,
  type OnFilesRequested,
  type UploadCount,
} from "./answer/answer-request.ts";
import {
  attachFallback,
  extendClient,
  type AnswerElicitation,
  type FallbackClient,
} from "./answer/elicitation-client.ts";
import { blobSource, type FileSource, type NamedBlob } from "./source/file-source.ts";
import { sendTimeouts, type SendTimeouts, type Sender } from "./send/sender.ts";
import { ClientSession } from "./upload-target.ts";
import { uploadFile, type UploadedReference, type UploadOptions } from "./upload-file.ts";

/** Options of {@link createFileSender}. */
export interface FileSenderOptions<Picked> {
  /**
   * URL of the MCP endpoint, from your configuration: files go to its origin, and nowhere else unless
   * you say so. For a WebSocket, that of the HTTP side.
   */
  readonly endpoint: URL | string;
  /** Asks a person for files. Nothing is opened before the answer was checked. */
  readonly onFilesRequested: OnFilesRequested<Picked>;
  /** Largest file in bytes; 1 GiB. Declared to the server and enforced here. */
  readonly maxFileBytes?: number;
  /** Media types and ranges to send; everything. Declared to the server. */
  readonly accept?: readonly string[];
  /** Origins besides the endpoint's own that files may go to. They never see credentials. */
  readonly trustedOrigins?: readonly string[];
  /**
   * Bearer token for the server, or what gets one before each request, if the transport has no {@link FileSender.fetch}. It
   * goes to the origin of the endpoint only. Default: the credentials of the last request that went through `fetch`.
   */
  readonly token?: Secret;
  /** Called as bytes go out. It must not throw. */
  readonly onProgress?: (count: UploadCount) => void;
  /**
   * Maximum bytes of one request of a resumable upload, at least 64 KiB: what a proxy in front of the server allows. After
   * a proxy's 413 the steps get smaller by themselves. Default: all that is left, in pages 8 MiB.
   */
  readonly maxStepBytes?: number;
  /** Deadlines other than the defaults of {@link SendTimeouts}. */
  readonly timeouts?: Partial<SendTimeouts>;
}

/** Sends files to the MCP server of one connection. */
export interface FileSender<Picked> {
  /**
   * A fetch for the `fetch` option of the connection's transport: requests go to `fetch` as they are,
   * by default the platform's own, and uploads use the credentials they carried.
   */
  fetch(fetch?: FetchLike): FetchLike;
  /** The client of SDK version 2 with requests for files answered, in every protocol revision. Make one for each connection. */
  extend(Base: typeof Client): typeof Client;
  /**
   * The same for a client of SDK version 1 that is not connected yet. Requests of other modes go to the
   * `fallbackRequestHandler` it has; its own handler for `elicitation/create` would block files.
   */
  attach(client: FallbackClient): void;
  /**
   * Sends a file that the server did not ask for and gives the URI by which tools take it (`files/authorizeUpload` of
   * SEP-2631, experimental). Rejects with the SDK's error if the server has no such method.
   */
  upload(
    client: RequestingClient,
    file: Picked,
    options?: UploadOptions,
  ): Promise<UploadedReference>;
}

/** The server that a sender is for. */
export function sessionOf({
  endpoint,
  token,
}: Pick<FileSenderOptions<never>, "endpoint" | "token">): ClientSession {
  return new ClientSession(new URL(endpoint), token);
}

/** A sender over functions of the platform: how requests go out, and how picked files are read. */
export function assembleFileSender<Picked>(
  session: ClientSession,
  options: Omit<FileSenderOptions<Picked>, "endpoint" | "token">,
  platform: {
    readonly sender: Sender;
    readonly sourceOf: (picked: Picked) => Promise<FileSource>;
  },
): FileSender<Picked> {
  const { onFilesRequested, onProgress, accept = ["*/*"], trustedOrigins = [] } = options;
  const { maxFileBytes = 2 ** 30, maxStepBytes = platform.sender.maxStepBytes } = options;
  if (!(Number.isSafeInteger(maxFileBytes) && maxFileBytes > 0))
    throw new RangeError(
      `client: maxFileBytes ${maxFileBytes} is not a byte count; pass an integer from 1`,
    );
  ensureStepBytes("client", maxStepBytes);
  ensureTrustedOrigins(trustedOrigins);
  const answering: AnswerSettings<Picked> = {
    ...platform,
    sender: { ...platform.sender, ...definedMembers({ maxStepBytes }) },
    trust: { session, trustedOrigins },
    timeouts: { ...sendTimeouts, ...options.timeouts },
    maxFileBytes,
    onFilesRequested,
    onProgress,
  };
  const binary: BinaryElicitation = {
    maxFileSize: maxFileBytes,
    supportedMimeTypes: accept,
  };
  const answer: AnswerElicitation = (params, context) =>
    answerRequest(params, answering, context).catch(rethrowWithReason);
  return {
    fetch: (fetch = globalThis.fetch) => session.watch(fetch),
    extend: (Base) => extendClient(Base, binary, answer),
    attach: (client) => attachFallback(client, binary, answer),
    upload: async (client, file, uploadOptions = {}) =>
      uploadFile(client, await platform.sourceOf(file), answering, uploadOptions),
  };
}

/** SDKs send the `data` of any thrown error: a server that learns the reason can say what to do. */
function rethrowWithReason(error: unknown): never {
  throw SluiceError.is(error) ? Object.assign(error, { data: { reason: error.code } }) : error;
}

/** A source over a `File` or a blob with a name. */
export async function sourceOfBlob(picked: File | NamedBlob): Promise<FileSource> {
  const {
    blob,
    name,
    mimeType = blob.type,
  } = picked instanceof Blob ? { blob: picked, name: picked.name, mimeType: picked.type } : picked;
  return blobSource(blob, {
    name,
    mimeType: formatContentType(mimeType || (await suggestedType(name))),
    isTypeGuessed: mimeType === "",
  });
}

/** Larger than all else here, and few files have no type. */
const loadTypes = createLoader(() => import("./source/type-table.ts"), "the table of media types");

async function suggestedType(name: string): Promise<string> {
  return (await loadTypes()).typeOfName(name);
}
