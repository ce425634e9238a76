import { membersOf } from "../../relay/messages.ts";
import { getBytes } from "./get-bytes.ts";
import { acceptNamed } from "./probe-grant.ts";
import { answerMs, type Visit } from "./visit.ts";

/** The tool that many servers have for links which open without credentials. */
const linkTool = "get_download_link";

/** Bytes of what a link gives to read. */
const linkBytes = 1_024;

/** Asks for a link, where a tool that changes nothing makes them, and opens it as a browser would. */
export async function probeLink(visit: Visit): Promise<void> {
  const { client, evidence, budget, signal } = visit;
  const { uri } = evidence;
  if (uri === undefined || budget.left < 2 * linkBytes || !(await hasLinkTool(visit))) return;
  const result = await client
    .callTool({ name: linkTool, arguments: { uri } }, { signal, timeout: answerMs })
    .catch(() => undefined);
  signal.throwIfAborted();
  const { download_url: text } = membersOf(result?.structuredContent);
  if (typeof text !== "string" || result?.isError === true) return;
  const accepted = acceptNamed(text, visit);
  evidence.link = { text, accepted, size: undefined, sha256: undefined };
  if ("refusal" in accepted) return;
  evidence.linked = await getBytes(visit, accepted.url, { atMost: linkBytes, isBare: true });
}

async function hasLinkTool({ client, signal }: Visit): Promise<boolean> {
  if (client.getServerCapabilities()?.tools === undefined) return false;
  const listed = await client
    .request({ method: "tools/list" }, { signal, timeout: answerMs })
    .catch(() => undefined);
  signal.throwIfAborted();
  const tool = listed?.tools.find(({ name }) => name === linkTool);
  return tool?.annotations?.readOnlyHint === true;
}
