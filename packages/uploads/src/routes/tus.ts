import { decodeBase64, parseMediaType, sanitizeFileName } from "@sluice/core/internal";
import { problem, type Reply } from "@sluice/server/internal";
import type { PlainRequest } from "@sluice/transport-http";
import type { FileProgress } from "../resumable/resumable-upload.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";
import { offsetReply } from "./answers.ts";
import { TUS_STEP_TYPE, type RequestFacts } from "../receive/request-facts.ts";

// tus 1.0 (https://tus.io/protocols/resumable-upload), over the same files as the steps of the IETF draft: the core
// protocol, creation, creation-with-upload, termination and expiration.

const version = "1.0.0";

/** What `OPTIONS` says of it, names and values in turn. */
export const tusOptions: readonly string[] = [
  "Tus-Resumable",
  version,
  "Tus-Version",
  version,
  "Tus-Extension",
  "creation,creation-with-upload,termination,expiration",
];

type Headers = Pick<PlainRequest, "header">;

/** Whether a client speaks tus, in any version. */
export function isTus({ header }: Headers): boolean {
  return header("tus-resumable") !== undefined;
}

/** The refusal of a version other than ours. */
export function refuseTusVersion({ header }: Headers): Reply | undefined {
  if (header("tus-resumable") === version) return undefined;
  return problem(412, {
    detail: `the server speaks tus ${version}`,
    headers: ["Tus-Version", version],
  });
}

/**
 * What a request of tus says of its file. `Content-Type` only says that the body is a step: the file's own name and type are
 * in `Upload-Metadata`. `complete` stays absent: in tus a file is whole when it has its length.
 */
export function readTusFacts(
  { method, header }: Headers & Pick<PlainRequest, "method">,
  { complete: _complete, contentDigest: _digest, contentType, ...facts }: RequestFacts,
): RequestFacts {
  const isStep = parseMediaType(contentType)?.essence === TUS_STEP_TYPE;
  if (method === "PATCH") {
    if (!isStep) throw uploadError("unsupported", `a step of tus has the type ${TUS_STEP_TYPE}`);
    if (facts.offset === undefined)
      throw uploadError("invalid_argument", "a step of tus says Upload-Offset");
    return facts;
  }
  if (method !== "POST") throw uploadError("invalid_argument", "tus begins an upload with POST");
  if (header("upload-concat") !== undefined)
    throw uploadError("invalid_argument", "Upload-Concat is not supported; send the file as one");
  if (facts.length === undefined)
    throw uploadError("invalid_argument", "send Upload-Length when the upload begins");
  const hasBody = facts.contentLength !== undefined && facts.contentLength > 0;
  if (hasBody && !isStep)
    throw uploadError("unsupported", `bytes of a tus upload have the type ${TUS_STEP_TYPE}`);
  const metadata = readMetadata(header("upload-metadata") ?? "");
  const name = metadata.get("filename") ?? metadata.get("name");
  const type = metadata.get("filetype") ?? metadata.get("type");
  return {
    ...facts,
    name: name === undefined ? facts.name : sanitizeFileName(name),
    contentType: parseMediaType(type) ? type : undefined,
  };
}

/** Keys and values of `Upload-Metadata`: each value is base64 of text. */
function readMetadata(text: string): ReadonlyMap<string, string> {
  const pairs = text.split(",").map((pair) => pair.trim().split(" ", 2));
  return new Map(
    pairs.map(([key = "", value = ""]) => {
      const bytes = decodeBase64(value);
      if (!bytes) throw uploadError("invalid_argument", "Upload-Metadata is malformed");
      return [key, new TextDecoder().decode(bytes)];
    }),
  );
}

/** A file was begun, or a step of it taken. */
export function tusStepReply(slot: OpenSlot, file: FileProgress, location?: string): Reply {
  const reply = offsetReply(slot, file);
  if (location === undefined) return reply;
  return {
    ...reply,
    status: 201,
    headers: ["Location", location, "Content-Length", "0", ...reply.headers],
  };
}

/** A reply with the headers that tus requires: its version, and when the upload expires. */
export function asTusReply(reply: Reply, slot: OpenSlot | undefined): Reply {
  const isSuccess = reply.status >= 200 && reply.status < 300;
  const expiry =
    isSuccess && slot ? ["Upload-Expires", new Date(slot.expiresAt).toUTCString()] : [];
  return { ...reply, headers: [...reply.headers, "Tus-Resumable", version, ...expiry] };
}
