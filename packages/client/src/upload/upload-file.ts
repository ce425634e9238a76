import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import {
  abortable,
  AUTHORIZE_UPLOAD_METHOD,
  definedMembers,
  type UploadEndpointMeta,
  UPLOADS_EXTENSION_ID,
} from "@sluice/core/internal";
import type { RequestingClient } from "../calls/stream-calls.ts";
import {
  isOneOf,
  isOptional,
  isRecordOf,
  isShaped,
  isText,
  isTextTo,
  schemaOf,
  type ShapeOf,
} from "../calls/shape.ts";
import type { UploadCount } from "./answer/answer-request.ts";
import type { FileSource } from "./source/file-source.ts";
import { sendFiles, type Shipment } from "./send/send-files.ts";
import type { SendSettings, SentFile } from "./send/outgoing-file.ts";
import { acceptTarget, type TargetClaim } from "./upload-target.ts";

/** A started upload, to resume it in another process. It is a secret: its holder may resume it. */
export interface BegunFile {
  /** URI that the file will have. */
  readonly uri: string;
  /** Where the rest of it goes. */
  readonly location: string;
  readonly auth: "bound" | "self";
}

/** Options of {@link FileSender.upload}. */
export interface UploadOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (count: UploadCount) => void;
  /** Resumes an upload that an earlier call began, if the server still has it. */
  readonly begun?: BegunFile;
  /** Called with how to resume the upload later; the bytes sent then stay at the server if the call fails. */
  readonly onBegun?: (begun: BegunFile) => void | Promise<void>;
}

/** A file that the server has. */
export interface UploadedReference extends SentFile {
  /** Names it in the arguments of a tool, for as long as the server keeps it (SEP-2631 §4). */
  readonly uri: string;
}

const isMeta = isShaped({
  wire: isOptional(isOneOf("raw", "resumable")),
  auth: isOptional(isOneOf("bound", "self")),
});
const mayBeTexts = isOptional(isRecordOf(isText));
const isAuthorized = isShaped({
  file: isShaped({ uri: isTextTo(8_192) }),
  upload: isShaped({
    transport: isOneOf("https"),
    method: isOneOf("POST", "PUT"),
    url: isText,
    headers: mayBeTexts,
    multipart: isOptional(isShaped({ fileField: isText, fields: mayBeTexts })),
    _meta: isOptional(isShaped({ [UPLOADS_EXTENSION_ID]: isOptional(isMeta) })),
  }),
});

type Authorized = ShapeOf<typeof isAuthorized>;

/** Sends one file to where `files/authorizeUpload` says (SEP-2631 §6). */
export async function uploadFile(
  client: RequestingClient,
  source: FileSource,
  settings: SendSettings,
  options: UploadOptions,
): Promise<UploadedReference> {
  const { signal = new AbortController().signal, onProgress, begun, onBegun } = options;
  const { name, size } = source;
  const shipment = {
    sources: [source],
    signal,
    onSent: (bytes: number) => onProgress?.({ bytes, totalBytes: size, name }),
  };
  if (begun) {
    const sentFile = await goOn(begun, shipment, settings);
    if (sentFile) return { ...sentFile, uri: begun.uri };
  }
  const authorized = await authorize(client, source, signal);
  const { uri } = authorized.file;
  const claim = claimOf(authorized);
  const target = acceptTarget(claim, settings.trust);
  const { auth } = claim;
  const [sent] = await sendFiles(
    {
      ...shipment,
      target,
      begun: onBegun && {
        keep: true,
        onLocation: (location) => onBegun({ uri, location, auth }),
      },
    },
    settings,
  );
  return { ...(sent as SentFile), uri };
}

/** Resumes an upload; `undefined` if the server no longer has it. */
async function goOn(
  { location, auth }: BegunFile,
  shipment: Omit<Shipment, "target">,
  settings: SendSettings,
): Promise<SentFile | undefined> {
  const claim = {
    url: location,
    method: "POST",
    wire: "resumable",
    auth,
    sessionBound: false,
  } as const;
  const target = acceptTarget(claim, settings.trust);
  try {
    const resumeState = { location, keep: true };
    const [sent] = await sendFiles({ ...shipment, target, begun: resumeState }, settings);
    return sent;
  } catch (error) {
    if (SluiceError.is(error) && goneCodes.has(error.code)) return undefined;
    throw error;
  }
}

const goneCodes: ReadonlySet<string> = new Set(["not_found", "expired"]);

async function authorize(
  client: RequestingClient,
  { name, size, mimeType, isTypeGuessed }: FileSource,
  signal: AbortSignal,
): Promise<Authorized> {
  const params = { name, size, ...(!isTypeGuessed && { mimeType }) };
  const request = { method: AUTHORIZE_UPLOAD_METHOD, params };
  signal.throwIfAborted();
  const ask = async (): Promise<unknown> =>
    client.request(request, schemaOf(isAuthorized), { signal });
  const result = await abortable(ask(), signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw refusalOf(error);
  });
  // not every client checks the result by its schema
  if (isAuthorized(result)) return result;
  throw new SluiceError("protocol", `client: ${AUTHORIZE_UPLOAD_METHOD}: a malformed answer`);
}

/** A JSON-RPC error as one of ours; other errors of the SDK stay its own. */
function refusalOf(error: unknown): unknown {
  const { code, data } = (error ?? {}) as { code?: unknown; data?: { reason?: unknown } };
  if (typeof code !== "number") return error;
  const { reason } = data ?? {};
  const [ours, hint] =
    code === methodNotFound
      ? (["unsupported", "the server takes no files this way"] as const)
      : (refusals.get(reason) ?? (["protocol", "the server refused the file"] as const));
  return new SluiceError(ours, `client: ${AUTHORIZE_UPLOAD_METHOD}: ${hint}`, { cause: error });
}

const methodNotFound = -32601;
/** `data.reason` of a refusal (SEP-2631 §10). */
const refusals: ReadonlyMap<unknown, readonly [SluiceErrorCode, string]> = new Map([
  ["maxSizeExceeded", ["too_large", "larger than the server takes"]],
  ["mimeTypeNotAccepted", ["unsupported", "a type of file that the server does not take"]],
  ["invalidMimeType", ["invalid_argument", "the media type is invalid"]],
] satisfies [string, readonly [SluiceErrorCode, string]][]);

/** A descriptor of SEP-2631 authenticates itself, unless it says otherwise. */
function claimOf({ upload }: Authorized): TargetClaim {
  const { url, method, headers, multipart, _meta } = upload;
  const { wire, auth = "self" }: UploadEndpointMeta = definedMembers({
    ..._meta?.[UPLOADS_EXTENSION_ID],
  });
  const form = multipart && { fileField: multipart.fileField, fields: multipart.fields ?? {} };
  return {
    url,
    method,
    wire: wire ?? (multipart ? "multipart" : "raw"),
    auth,
    sessionBound: false,
    headers,
    form,
  };
}
