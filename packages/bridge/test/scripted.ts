import { createProcessUpstream, type ProcessOptions, type Upstream } from "@sluice/bridge";

/** A server that is a line of JavaScript a message: `on(message)` sees each, `say(object)` answers. */
export function scripted(on: string, options: Partial<ProcessOptions> = {}): Upstream {
  const source = `
    const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
    const answer = (id, result) => say({ id, result });
    const start = ({ id, params }) => answer(id, {
      protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "scripted", version: "1" },
    });
    const lines = require("node:readline").createInterface({ input: process.stdin });
    lines.on("line", (line) => { const message = JSON.parse(line); (${on})(message); });`;
  return createProcessUpstream({ command: process.execPath, args: ["-e", source], ...options });
}
