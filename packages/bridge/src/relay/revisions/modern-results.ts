import { FIRST_MODERN_VERSION } from "@sluice/core/wire";
import { isMembers, membersOf, type Answer, type Members } from "../../messages/messages.ts";
import { SERVER_INFO_KEY } from "../../messages/envelope.ts";

/** Methods whose results say how long they hold (SEP-2549). */
const cacheable: ReadonlySet<string> = new Set([
  "prompts/list",
  "resources/list",
  "resources/read",
  "resources/templates/list",
  "server/discover",
  "tools/list",
]);

/** The result of `server/discover` that says what a result of `initialize` says. */
export function discoverResult(initialized: Members): Members {
  const { tasks: _tasks, ...capabilities } = membersOf(initialized["capabilities"]);
  const result: Record<string, unknown> = {
    supportedVersions: [FIRST_MODERN_VERSION],
    capabilities,
  };
  if (typeof initialized["instructions"] === "string")
    result["instructions"] = initialized["instructions"];
  return result;
}

/** An answer of an older revision as 2026-07-28 has it. */
export function modernAnswer(method: string, answer: Answer, serverInfo: unknown): Answer {
  if (answer.error) {
    // a resource that is not there has no code of its own any more
    return answer.error.code === -32_002 ? { error: { ...answer.error, code: -32_602 } } : answer;
  }
  const result: Record<string, unknown> = { resultType: "complete", ...answer.result };
  if (cacheable.has(method)) {
    result["ttlMs"] ??= 0;
    result["cacheScope"] ??= "private";
  }
  if (method === "tools/list" && Array.isArray(result["tools"]))
    result["tools"] = (result["tools"] as unknown[]).map(withoutExecution);
  if (isMembers(serverInfo))
    result["_meta"] = { [SERVER_INFO_KEY]: serverInfo, ...membersOf(result["_meta"]) };
  return { result };
}

/** 2026-07-28 has no tasks in its core. */
function withoutExecution(tool: unknown): unknown {
  if (!isMembers(tool) || !("execution" in tool)) return tool;
  const { execution: _dropped, ...rest } = tool;
  return rest;
}
