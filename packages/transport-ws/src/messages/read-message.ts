import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { parseJson } from "@sluice/core";
import { closings, type Closing } from "./closing.ts";

/** A text frame, understood or not. */
export type ReadMessage =
  | { readonly message: JSONRPCMessage; readonly fault?: never }
  | { readonly fault: MessageFault; readonly message?: never };

/** What is wrong with a frame: the JSON-RPC error to send, and the close that follows it. */
interface MessageFault {
  readonly code: -32700 | -32600;
  readonly message: string;
  readonly closing: Closing;
}

const notJson: MessageFault = { code: -32700, message: "Parse error", closing: closings.notJson };
const notJsonRpc: MessageFault = {
  code: -32600,
  message: "Invalid Request: one JSON-RPC 2.0 message a frame, no batches",
  closing: closings.notJsonRpc,
};

/**
 * Reads a text frame as one JSON-RPC message. What is wrong ends the connection: an error without
 * an id can be tied to no request, and whoever waits for its answer would wait in vain. Batches
 * went with revision 2025-06-18, and the SDK has none on long-lived channels.
 */
export function readMessage(text: string): ReadMessage {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    return { fault: notJson };
  }
  return isMessage(value) ? { message: value } : { fault: notJsonRpc };
}

/** The members that JSON-RPC 2.0 names and MCP narrows; what is in them is for the SDK to check. */
function isMessage(value: unknown): value is JSONRPCMessage {
  if (!isObject(value) || value["jsonrpc"] !== "2.0") return false;
  const { id, method, params, result, error } = value;
  const identified = typeof id === "string" || Number.isSafeInteger(id);
  if (method !== undefined)
    return (
      typeof method === "string" &&
      (id === undefined || identified) &&
      (params === undefined || isObject(params)) &&
      result === undefined &&
      error === undefined
    );
  if (error === undefined) return identified && isObject(result);
  return (
    result === undefined &&
    (identified || id === undefined || id === null) &&
    isObject(error) &&
    Number.isSafeInteger(error["code"]) &&
    typeof error["message"] === "string"
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
