import type { JSONRPCMessage, JSONRPCRequest, RequestId } from "@modelcontextprotocol/client";
import { isAnswer, membersOf } from "../messages/messages.ts";
import { SUBSCRIPTION_KEY } from "../messages/envelope.ts";
import { progressTokenOf } from "./related-call.ts";

/** The names of one call: those of its host, and the one that no other call on the same connection has. */
export interface CallNames {
  readonly hostId: RequestId;
  readonly hostToken: unknown;
  /** Id of the request and, where it asks for progress, its token. */
  readonly id: number;
}

/** The names of a call that is sent on as number `id`. */
export function namesOf(call: JSONRPCRequest, id: number): CallNames {
  return { hostId: call.id, hostToken: progressTokenOf(call.params), id };
}

/** The call as it is sent on. */
export function renamed(call: JSONRPCRequest, { id, hostToken }: CallNames): JSONRPCRequest {
  if (hostToken === undefined) return { ...call, id };
  const params = membersOf(call.params);
  const meta = { ...membersOf(params["_meta"]), progressToken: id };
  return { ...call, id, params: { ...params, _meta: meta } };
}

/** A message of the server with the names that the host knows; undefined when it belongs to another call. */
export function forHost(message: JSONRPCMessage, names: CallNames): JSONRPCMessage | undefined {
  if (isAnswer(message)) {
    if (message.id !== names.id) return undefined;
    const answer = { ...message, id: names.hostId };
    if (!("result" in answer)) return answer;
    return { ...answer, result: withSubscription(answer.result, names) };
  }
  if (!message.params) return message;
  const params = membersOf(message.params);
  if (message.method === "notifications/progress") {
    if (params["progressToken"] !== names.id) return undefined;
    return { ...message, params: { ...params, progressToken: names.hostToken } };
  }
  return { ...message, params: withSubscription(params, names) };
}

/** A subscription is called by the id of the request that opened it. */
function withSubscription<Value extends object>(value: Value, { id, hostId }: CallNames): Value {
  const meta = membersOf(membersOf(value)["_meta"]);
  const name = meta[SUBSCRIPTION_KEY];
  if (name !== id && name !== String(id)) return value;
  return { ...value, _meta: { ...meta, [SUBSCRIPTION_KEY]: hostId } };
}
