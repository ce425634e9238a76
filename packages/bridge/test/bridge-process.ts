// #region bridge
import { createHttpUpstream, createStdioHost, runBridge } from "@sluice/bridge";

// a stdio MCP server for a host, in front of the one at this URL
await runBridge({
  host: createStdioHost(),
  upstream: createHttpUpstream({ endpoint: new URL(process.argv[2] ?? "") }),
  onNote: (line) => console.error(line),
});
// #endregion
