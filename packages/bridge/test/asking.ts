import { handWritten, listening, type Behind } from "./filing.ts";

/** A server over stdio that asks for a file whenever its tool is called, or at once. */
export function asking(url: URL, when: "call" | "start"): Behind {
  const source = `
    const say = (m) => console.log(JSON.stringify({ jsonrpc: "2.0", ...m }));
    const ask = () => say({ id: "q", method: "elicitation/create", params: {
      mode: "binary", message: "Your file",
      requestedSchema: { type: "object", properties: { f: { type: "file" } }, required: ["f"] },
      uploadEndpoints: { f: { url: ${JSON.stringify(url.href)}, uploadId: "u" } },
    }});
    let call;
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const m = JSON.parse(line);
      if (m.method === "initialize") say({ id: m.id, result: {
        protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "asking", version: "1" } } });
      else if (m.method === "notifications/initialized") { ${when === "start" ? "ask();" : ""} }
      else if (m.method === "tools/list") say({ id: m.id, result: { tools: [{ name: "take", inputSchema: { type: "object" } }] } });
      else if (m.method === "tools/call") { call = m.id; ask(); }
      else if (m.id === "q") {
        process.stderr.write("");
        say({ id: call, result: { content: [{ type: "text", text: JSON.stringify(m.result ?? m.error) }] } });
      } else if (m.id !== undefined) say({ id: m.id, error: { code: -32601, message: "Method not found" } });
    });`;
  return { command: process.execPath, args: ["-e", source] };
}

/** A place for files, and what came there. */
export async function uploadPlace(): Promise<{ readonly url: URL; readonly got: string[] }> {
  const got: string[] = [];
  const url = await listening((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      got.push(Buffer.concat(chunks).toString());
      response.end();
    });
  });
  return { url, got };
}

/** A server of 2026-07-28 whose tool asks for a file in its result, and the `_meta` of its calls. */
export async function askingInResults(
  place: URL,
): Promise<{ readonly url: URL; readonly metas: Record<string, any>[] }> {
  const metas: Record<string, any>[] = [];
  const url = await handWritten(
    ({ method, params }) => {
      const complete = { resultType: "complete", ttlMs: 0, cacheScope: "private" };
      if (method === "initialize") return { error: { code: -32_601, message: "Method not found" } };
      if (method === "server/discover")
        return {
          result: { ...complete, supportedVersions: ["2026-07-28"], capabilities: { tools: {} } },
        };
      if (method === "tools/list")
        return {
          result: { ...complete, tools: [{ name: "take", inputSchema: { type: "object" } }] },
        };
      metas.push(params["_meta"]);
      if (params["inputResponses"]) {
        const text = `${params["requestState"]} ${JSON.stringify(params["inputResponses"].q)}`;
        return { result: { resultType: "complete", content: [{ type: "text", text }] } };
      }
      const asked = {
        mode: "binary",
        message: "Your file",
        requestedSchema: { type: "object", properties: { f: { type: "file" } } },
        uploadEndpoints: { f: { url: place.href, uploadId: "u" } },
      };
      const inputRequests = { q: { method: "elicitation/create", params: asked } };
      return { result: { resultType: "input_required", inputRequests, requestState: "s1" } };
    },
    undefined,
    true,
  );
  return { url, metas };
}
