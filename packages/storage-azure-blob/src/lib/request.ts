import { callService, type ServiceCall } from "@sluice/storage/plugin";
import { toSluiceError } from "./azure-error.ts";

/** One call of the SDK, with errors of Sluice (see {@link callService}). `send` hands its signal to the SDK. */
export function request<T>(
  call: ServiceCall,
  send: (abortSignal: AbortSignal) => Promise<T>,
): Promise<T> {
  return callService(call, send, { toError: toSluiceError });
}
