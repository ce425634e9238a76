import { EXTENSION_ID } from "@sluice/core/wire";

/**
 * Says what a legacy client declared in the literal field of SEP-2532 again as an extension, which
 * the SDK passes on: it drops the field itself.
 */
export function literalCapabilities<Message extends object>(message: Message): Message {
  const { method, params } = message as { method?: unknown; params?: { capabilities?: unknown } };
  if (method !== "initialize") return message;
  const { resourceStreaming, extensions, ...others } = (params?.capabilities ?? {}) as {
    resourceStreaming?: unknown;
    extensions?: Record<string, unknown>;
  };
  if (resourceStreaming === undefined || extensions?.[EXTENSION_ID] !== undefined) return message;
  const capabilities = {
    ...others,
    extensions: { ...extensions, [EXTENSION_ID]: resourceStreaming },
  };
  return { ...message, params: { ...params, capabilities } };
}
