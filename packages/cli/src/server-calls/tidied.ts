import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";

type JsonObject = Readonly<Record<string, unknown>>;

/**
 * The transport with results as MCP has them. Servers in languages that know no difference between nothing and `null` write
 * `null` for a member that is not there, or an empty cursor, which the SDK refuses.
 */
export function tidied(transport: Transport): Transport {
  let handler: Transport["onmessage"];
  Object.defineProperty(transport, "onmessage", {
    get: () => handler,
    set(taken: Transport["onmessage"]) {
      handler = taken && ((message, extra) => taken(tidy(message), extra));
    },
  });
  return transport;
}

function tidy(message: JSONRPCMessage): JSONRPCMessage {
  if (!("result" in message) || !isMembers(message.result)) return message;
  const result: Record<string, unknown> = withoutNulls(message.result);
  if (result["nextCursor"] === "") delete result["nextCursor"];
  for (const name of lists) {
    const list = result[name];
    if (Array.isArray(list))
      result[name] = (list as unknown[]).map((entry) =>
        isMembers(entry) ? withoutNulls(entry) : entry,
      );
  }
  const { capabilities } = result;
  if (isMembers(capabilities)) result["capabilities"] = withoutNulls(capabilities);
  return { ...message, result };
}

const lists = ["contents", "prompts", "resources", "resourceTemplates", "tools"];

function withoutNulls(members: JsonObject): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}

function isMembers(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
