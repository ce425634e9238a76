import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/client";
import { isRequest, isResponse, readJson, readRpc } from "@sluice/core/internal";
import { codes, isMembers, type Members } from "./messages.ts";

/** What is wrong with a text, as JSON-RPC says it. */
export interface TextFault {
  /** -32700, -32600 or -32602. */
  readonly code: number;
  readonly message: string;
}

/** A text that is not one message. */
export interface UnreadText {
  readonly fault: TextFault;
  /** Ids of the requests in it, as far as they can be told. */
  readonly requests: readonly RequestId[];
  /** Ids of the responses in it. */
  readonly responses: readonly RequestId[];
  /** Ids of what is either. */
  readonly others: readonly RequestId[];
  readonly message?: never;
}

/**
 * Reads a text of another party as one message of at most `maxContainers` arrays and objects, where that is bounded. What
 * programs write that know no difference between nothing and `null` is taken for nothing.
 */
export function readMessage(
  text: string,
  maxContainers?: number,
): { readonly message: JSONRPCMessage } | UnreadText {
  const { message, fault } = readRpc(text, maxContainers);
  if (message) return { message: message as JSONRPCMessage };
  const { value } = readJson(text, maxContainers);
  if (Array.isArray(value)) return unread(fault, value);
  if (!isMembers(value)) return unread(fault);
  const tidied = readRpc(JSON.stringify(withoutNulls(value)), maxContainers);
  if (tidied.message) return { message: tidied.message as JSONRPCMessage };
  return unread(faultOfParams(value) ?? fault, [value]);
}

/** A text with these values in it, none of which is passed on. */
export function unread(fault: TextFault, values: readonly unknown[] = []): UnreadText {
  const requests = values.filter(isRequest).map(({ id }) => id);
  const responses = values.filter(isResponse).map(({ id }) => id);
  return { fault, requests, responses, others: [] };
}

/** Members of `null` for which JSON-RPC and MCP have no member at all, and parameters of no position. */
function withoutNulls(value: Members): Members {
  const { params, result, error, ...rest } = value;
  const isNone = params === null || (Array.isArray(params) && params.length === 0);
  return {
    ...rest,
    ...(isNone || params === undefined ? {} : { params }),
    ...(result === undefined || (result === null && isMembers(error)) ? {} : { result }),
    ...(error === undefined || (error === null && isMembers(result)) ? {} : { error }),
  };
}

function faultOfParams({ jsonrpc, params }: Members): TextFault | undefined {
  if (jsonrpc !== "2.0" || params === undefined || isMembers(params)) return undefined;
  return { code: codes.invalidParams, message: "Invalid params: they must be an object" };
}
