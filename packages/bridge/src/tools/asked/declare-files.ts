import type { JSONRPCRequest } from "@modelcontextprotocol/client";
import { showsForms } from "../../confine/consent.ts";
import { CAPABILITIES_KEY } from "../../messages/envelope.ts";
import { membersOf, type Members } from "../../messages/messages.ts";
import { GIVES_FILE_META } from "../send-file.ts";

/**
 * Declares that files may be asked for (SEP-1306): in `initialize` where the host can be asked something, in calls of
 * tools where it shows forms (2026-07-28), and in the calls of `send_file`. Other messages stay as they are.
 */
export function declareFiles(message: JSONRPCRequest): JSONRPCRequest {
  const params = membersOf(message.params);
  if (message.method === "initialize") {
    const capabilities = membersOf(params["capabilities"]);
    if (!("elicitation" in capabilities)) return message;
    return { ...message, params: { ...params, capabilities: withFiles(capabilities) } };
  }
  const { [GIVES_FILE_META]: isGiving, ...meta } = membersOf(params["_meta"]);
  const isAsking = message.method === "tools/call" && showsForms(membersOf(meta[CAPABILITIES_KEY]));
  if (isGiving !== true && !isAsking) return message;
  if (CAPABILITIES_KEY in meta) {
    const _meta = { ...meta, [CAPABILITIES_KEY]: withFiles(membersOf(meta[CAPABILITIES_KEY])) };
    return { ...message, params: { ...params, _meta } };
  }
  if (Object.keys(meta).length > 0) return { ...message, params: { ...params, _meta: meta } };
  const { _meta: _dropped, ...rest } = params;
  return { ...message, params: rest };
}

function withFiles(capabilities: Members): Members {
  const elicitation = membersOf(capabilities["elicitation"]);
  // an empty one means forms, which it must go on to mean
  const forms =
    Object.keys(elicitation).length === 0 && "elicitation" in capabilities ? { form: {} } : {};
  const binary = { maxFileSize: Number.MAX_SAFE_INTEGER, supportedMimeTypes: ["*/*"] };
  return { ...capabilities, elicitation: { ...forms, binary, ...elicitation } };
}
