import { spawn, spawnSync, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect } from "./connect.ts";
import { serve } from "./serve.ts";

const peer = fileURLToPath(new URL("independent-peer.py", import.meta.url));

/** The first Python that has the package; on Debian and Ubuntu that of the system. */
const python = ["python3", "/usr/bin/python3"].find(
  (each) => spawnSync(each, ["-c", "import websockets"]).status === 0,
);
if (python === undefined)
  console.log(
    "no Python with websockets: its frames are not compared (apt-get install python3-websockets)",
  );

function run(...args: string[]): ChildProcessWithoutNullStreams {
  const child = spawn(python!, [peer, ...args]);
  child.stderr.pipe(process.stderr);
  onTestFinished(() => void child.kill());
  return child;
}

async function output(child: ChildProcessWithoutNullStreams): Promise<string> {
  let text = "";
  child.stdout.on("data", (chunk) => (text += chunk));
  await once(child, "close");
  return text;
}

describe.skipIf(python === undefined)("an independent WebSocket implementation", () => {
  test(
    "understands our server, and is understood: fragments, pings, closes and refusals",
    { tags: "slow" },
    async () => {
      const { url, errors } = await serve({
        ws: { maxMessageBytes: 2 ** 22 },
        register: (mcp) => {
          mcp.registerTool("echo", {}, () => ({ content: [] }));
          mcp.server.setRequestHandler("tools/call", (request) => ({
            content: [{ type: "text", text: String(request.params.arguments?.["text"]) }],
          }));
        },
      });
      expect(JSON.parse(await output(run("client", url)))).toEqual({
        subprotocol: "mcp",
        extensions: 0,
        server: "test",
        echo: true,
        downloadUrl: expect.stringContaining("/mcp/streams/v1."),
        ours: 1000,
        binary: 1003,
        error: -32700,
        notJson: 1007,
        large: 1009,
        other: 400,
      });
      expect(errors).toEqual([]);
    },
  );

  test(
    "is understood by our client, which comes back when it closes",
    { tags: "slow" },
    async () => {
      const child = run("server");
      const [port] = (await once(child.stdout, "data")) as [Buffer];
      const url = `ws://127.0.0.1:${String(port).trim()}/`;
      const reconnects: string[] = [];
      const { client } = await connect("SDK v2, legacy", url, {
        reconnect: { baseMs: 5 },
        onReconnect: () => reconnects.push("again"),
      });
      const text = "grüße 🌊 ".repeat(20_000);
      const { content } = await client.callTool({ name: "echo", arguments: { text } });
      expect(content).toEqual([{ type: "text", text }]);
      const closing = client.callTool({ name: "echo", arguments: { close: 1012 } });
      await expect(closing).rejects.toMatchObject({ data: { reason: "connection_lost" } });
      const again = await client.callTool({ name: "echo", arguments: { text: "back" } });
      expect(again.content).toEqual([{ type: "text", text: "back" }]);
      expect(reconnects).toEqual(["again"]);
      child.stdin.end();
      await once(child, "close");
    },
  );
});
