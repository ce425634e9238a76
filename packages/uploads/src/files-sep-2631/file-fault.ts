import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import type { SluiceError, SluiceErrorCode } from "@sluice/core";
import { definedMembers, retryWords } from "@sluice/core/internal";
import type { AnyCall } from "@sluice/server";
import { callerOf, callInV2, type Host, revisionOf } from "@sluice/server/internal";
import { userOf } from "../slots/slot-token.ts";
import { codeOf } from "../slots/upload-error.ts";
import type { DownloadCaller } from "./file-download.ts";

/** A refusal with its machine-readable details (SEP-2631 §10), such as `{reason: "maxSizeExceeded", maxSize, actualSize}`. */
export function refusal(
  message: string,
  details: { readonly reason: string } & Readonly<Record<string, unknown>>,
): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `files: ${message}`, details);
}

/** Refuses a file that is larger than may come. */
export function ensureSize(size: number, maxBytes: number): void {
  if (size > maxBytes)
    throw refusal(`the file has ${size} bytes, and at most ${maxBytes} are accepted`, {
      reason: "maxSizeExceeded",
      maxSize: maxBytes,
      actualSize: size,
    });
}

/** What a peer learns of an error (SEP-2631 §10): -32602 for what it can change, else -32603. */
export function faultFor(error: unknown, onError: (error: unknown) => void): ProtocolError {
  if (ProtocolError.isInstance(error)) return error;
  const code = codeOf(error);
  const reason = reasons[code];
  if (reason !== undefined) return refusal(sentences[reason]!, { reason });
  if (code === "throttled" || code === "unavailable") {
    const { retryAfterMs } = error as SluiceError;
    const data = definedMembers({ reason: "busy", retryAfterMs });
    const words = `files: busy, ${retryWords(error)}`;
    return new ProtocolError(ProtocolErrorCode.InternalError, words, data);
  }
  onError(error);
  if (code === "no_space") {
    const full = "files: there is no room for the file at the moment";
    return new ProtocolError(ProtocolErrorCode.InternalError, full, { reason: "noSpace" });
  }
  const data = { reason: "internal" };
  return new ProtocolError(ProtocolErrorCode.InternalError, "files: internal error", data);
}

const reasons: { readonly [Code in SluiceErrorCode]?: string } = {
  not_found: "unknownFile",
  permission_denied: "unknownFile",
  unauthenticated: "unknownFile",
  expired: "expired",
  invalid_argument: "malformedUri",
  precondition_failed: "changed",
  already_exists: "unknownFile",
  too_large: "maxSizeExceeded",
  unsupported: "mimeTypeNotAccepted",
  corrupt: "digestMismatch",
};

const sentences: Readonly<Record<string, string>> = {
  unknownFile: "there is no such file for you, or its bytes have not arrived",
  expired: "this file has expired",
  malformedUri:
    "the URI names no file of this server; call request_upload where the server has it, or leave the argument out where it is optional",
  changed: "the file is not the one that the URI was made for",
  maxSizeExceeded: "the file is too large",
  mimeTypeNotAccepted: "this type of file is not accepted",
  digestMismatch: "the bytes do not match the declared digest",
};

/** Works for the caller of a handler; what goes wrong becomes an error of the protocol. A wrong call stays a `TypeError`. */
export async function serveCaller<T>(
  host: Pick<Host, "ensureOwn" | "identify" | "addressOf" | "onError">,
  call: AnyCall,
  work: (caller: DownloadCaller) => T | Promise<T>,
): Promise<T> {
  const { mcp, ctx } = callInV2(call);
  host.ensureOwn(mcp);
  try {
    const caller = callerOf(ctx, mcp);
    const identity = await host.identify(caller);
    const { signal } = ctx.mcpReq;
    const owner = userOf(identity.principal);
    const address = host.addressOf(caller);
    return await work({ identity, owner, address, revision: revisionOf(mcp), signal });
  } catch (error) {
    throw faultFor(error, host.onError);
  }
}
