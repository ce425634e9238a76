import { SluiceError } from "@sluice/core";
import { definedMembers, UPLOADS_EXTENSION_ID } from "@sluice/core/internal";
import {
  isCount,
  isFlag,
  isListOf,
  isNumber,
  isObject,
  isOneOf,
  isOptional,
  isRecordOf,
  isShaped,
  isText,
  isTextTo,
  type ShapeOf,
} from "../../calls/shape.ts";
import { acceptTarget, type Trust, type UploadTarget } from "../upload-target.ts";

/** A file that a server asks for. */
export interface RequestedField {
  readonly name: string;
  /** The server's words. */
  readonly title?: string;
  readonly description?: string;
  /** Media types (`image/png`), ranges (`image/*`) and extensions (`.pdf`); empty: everything. */
  readonly accept: readonly string[];
  /** Largest file, in bytes: the smaller limit of server and client. */
  readonly maxBytes: number;
  /** Maximum files; 1 unless the server takes several. */
  readonly maxFiles: number;
  readonly required: boolean;
  /** Origin that the bytes will go to. */
  readonly destination: string;
}

/** A server's request for files, checked as far as it can be without the user. */
export interface ReceivedFileRequest {
  /** The purpose that the server states. Its words: never instructions to a model. */
  readonly message: string;
  /** Origin of the MCP server that asks. */
  readonly origin: string;
  readonly fields: readonly RequestedField[];
  /** The values that are asked for besides files, by name, as the server describes them (JSON Schema). */
  readonly values: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Names of those that must be answered. */
  readonly requiredValues: readonly string[];
}

/** A request together with where its files go. */
export interface ParsedFileRequest {
  readonly request: ReceivedFileRequest;
  readonly places: ReadonlyMap<string, FieldTarget>;
  /** The server requests progress (SEP-1306 §5). */
  readonly progressToken?: string | number | undefined;
}

interface FieldTarget {
  readonly uploadId: string;
  /** The answer is a list, even of one. */
  readonly isList: boolean;
  readonly target: UploadTarget;
}

const maxFields = 32;
/** For a server that takes several files without a limit. */
const defaultMaxFiles = 10;

const maxWords = 10_000;
const isWords = isTextTo(maxWords);
const isFileField = isShaped({
  type: isOneOf("file"),
  title: isOptional(isWords),
  description: isOptional(isWords),
  accept: isOptional(isListOf(isWords, 256)),
  maxSize: isOptional((value): value is number => isNumber(value) && value >= 0),
  multiple: isOptional(isFlag),
  required: isOptional(isFlag),
});
const isMeta = isShaped({
  wire: isOptional(isOneOf("raw", "resumable")),
  auth: isOptional(isOneOf("bound", "self")),
  sessionBound: isOptional(isFlag),
  maxFiles: isOptional((value): value is number => isCount(value) && value > 0),
});
const isEndpoint = isShaped({
  url: isText,
  method: isOptional(isText),
  uploadId: isWords,
  _meta: isOptional(isShaped({ [UPLOADS_EXTENSION_ID]: isOptional(isMeta) })),
});
const isParams = isShaped({
  mode: isOneOf("binary"),
  message: isWords,
  requestedSchema: isShaped({
    properties: isRecordOf(isObject, maxWords),
    required: isOptional(isListOf(isWords)),
  }),
  uploadEndpoints: isRecordOf(isEndpoint, maxWords),
  _meta: isOptional(
    isShaped({
      progressToken: isOptional(
        (value): value is string | number => isText(value) || isNumber(value),
      ),
    }),
  ),
});

/**
 * Reads the params of an `elicitation/create` of mode `binary` (SEP-1306 §2). Throws `protocol` for malformed params,
 * and `untrusted` for addresses that files must not go to, before the user is asked anything.
 */
export function readFileRequest(
  params: unknown,
  trust: Trust,
  maxFileBytes: number,
): ParsedFileRequest {
  if (!isParams(params)) throw malformed("is not as SEP-1306 describes it");
  const { message, requestedSchema, uploadEndpoints, _meta } = params;
  const properties = Object.entries(requestedSchema.properties);
  if (properties.length > maxFields) throw malformed("has too many fields");
  const required = new Set(requestedSchema.required);
  const places = new Map<string, FieldTarget>();
  const fields: RequestedField[] = [];
  const values: Record<string, Record<string, unknown>> = Object.create(null);
  for (const [name, property] of properties) {
    if (property["type"] !== "file") {
      values[name] = property;
      continue;
    }
    const endpoint = Object.hasOwn(uploadEndpoints, name) ? uploadEndpoints[name] : undefined;
    if (!endpoint) throw malformed("has a file field without an upload endpoint");
    if (!isFileField(property)) throw malformed("has a malformed file field");
    const { title, description, accept = [], maxSize = Infinity, multiple = false } = property;
    const place = { ...placeOf(endpoint, trust), isList: multiple };
    places.set(name, place);
    const extension = endpoint._meta?.[UPLOADS_EXTENSION_ID];
    fields.push({
      ...definedMembers({ name, title, description }),
      accept,
      maxBytes: Math.min(maxSize, maxFileBytes),
      maxFiles: multiple ? (extension?.maxFiles ?? defaultMaxFiles) : 1,
      required: required.has(name) || property.required === true,
      destination: place.target.url.origin,
    });
  }
  if (fields.length === 0) throw malformed("asks for no file");
  const progressToken = _meta?.progressToken;
  return {
    request: {
      message,
      origin: trust.session.endpoint.origin,
      fields,
      values,
      requiredValues: [...required].filter((name) => Object.hasOwn(values, name)),
    },
    places,
    progressToken,
  };
}

function placeOf(endpoint: ShapeOf<typeof isEndpoint>, trust: Trust): Omit<FieldTarget, "isList"> {
  const { url, method = "POST", uploadId } = endpoint;
  if (method !== "POST" && method !== "PUT") throw malformed("has an upload method of its own");
  const { wire, auth, sessionBound } = endpoint._meta?.[UPLOADS_EXTENSION_ID] ?? {};
  return {
    uploadId,
    target: acceptTarget(
      {
        url,
        method,
        wire: wire ?? "multipart",
        auth: auth ?? "bound",
        sessionBound: sessionBound ?? false,
      },
      trust,
    ),
  };
}

function malformed(how: string): SluiceError {
  return new SluiceError("protocol", `client: the server's request for files ${how}`);
}
