import { membersOf } from "../../messages/messages.ts";
import { getBytes } from "./get-bytes.ts";
import { acceptNamed } from "./probe-grant.ts";
import { linkTool } from "./probe-tools.ts";
import { answerMs, type Visit } from "./visit.ts";

/** Bytes of what a link gives to read. */
const linkBytes = 1_024;

/** Asks for a link, where a tool that changes nothing makes them, and opens it as a browser would. */
export async function probeLink(visit: Visit): Promise<void> {
  const { client, evidence, budget, signal } = visit;
  const { uri } = evidence;
  if (uri === undefined || budget.left < 2 * linkBytes || !evidence.tools?.makeLinks) return;
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
