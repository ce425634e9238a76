import { FILE_KEYWORD } from "@sluice/core/wire";
import { answerMs, type Visit } from "./visit.ts";

/** The tool that many servers have for links which open without credentials. */
export const linkTool = "get_download_link";

/** Lists the tools, for what files do with them. */
export async function probeTools({ client, evidence, signal }: Visit): Promise<void> {
  if (client.getServerCapabilities()?.tools === undefined) return;
  const listed = await client
    .request({ method: "tools/list" }, { signal, timeout: answerMs })
    .catch(() => undefined);
  signal.throwIfAborted();
  const { tools = [] } = listed ?? {};
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
