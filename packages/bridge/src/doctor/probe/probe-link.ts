import { FILE_KEYWORD } from "@sluice/core/wire";
import { answerMs, type Visit } from "./visit.ts";
import { membersOf } from "../../messages/messages.ts";
import { getBytes, acceptNamed } from "./probe-bytes.ts";

/** The tool that many servers have for links which open without credentials. */
const linkTool = "get_download_link";

/** Lists the tools, for what files do with them. */
export async function probeTools({ client, evidence, signal }: Visit): Promise<void> {
  if (client.getServerCapabilities()?.tools === undefined) return;
  const listResult = await client
    .request({ method: "tools/list" }, { signal, timeout: answerMs })
    .catch(() => undefined);
  signal.throwIfAborted();
  const { tools = [] } = listResult ?? {};
  evidence.tools = {
    // one that changes something is not called
    makeLinks: tools.some(
      ({ name, annotations }) => name === linkTool && annotations?.readOnlyHint === true,
    ),
    takeFiles: tools.some(({ inputSchema }) =>
      JSON.stringify(inputSchema).includes(`"${FILE_KEYWORD}":`),
    ),
  };
}

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
