import { isResponse, namesMethod, readRpc, type RpcCall } from "@sluice/core/internal";

/** The call in a JSON text; `undefined` for responses, batches and everything else. */
export function callOf(text: string): RpcCall | undefined {
  const { message } = readRpc(text);
  return namesMethod(message) ? message : undefined;
}

/** True for the response to the request `id`. */
export function isAnswerTo(message: unknown, { id }: Pick<RpcCall, "id">): boolean {
  return isResponse(message) && message.id === id;
}
