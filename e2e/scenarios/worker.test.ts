// @module-tag slow
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamResource } from "@sluice/client";
import { streamingCapabilities, withStreaming } from "@sluice/client/internal";
import { formatKey, generateKey } from "@sluice/core";
import { describe, expect, test } from "vitest";
import { bundleWorker, hasWorkerd, startWorker } from "../bed/runtimes.ts";

if (!hasWorkerd)
  console.log("no workerd: the example of Workers is not run (its binary is for Linux on x64)");

const content = "Hello from a Worker";

describe.skipIf(!hasWorkerd)("in workerd", () => {
  test("the example of the README lists, reads and streams", async () => {
    const code = await bundleWorker("../examples/worker.ts");
    await using worker = await startWorker(code, (origin) => ({
      ENDPOINT: `${origin}/mcp`,
      SLUICE_KEYS: formatKey(generateKey()),
    }));
    const client = new Client(
      { name: "test", version: "1.0.0" },
      { capabilities: streamingCapabilities(), versionNegotiation: { mode: "auto" } },
    );
    const url = new URL(`${worker.origin}/mcp`);
    await client.connect(new StreamableHTTPClientTransport(url, { fetch: withStreaming() }));
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual(["files://demo/hello.txt"]);
    const { contents } = await client.readResource({ uri: "files://demo/hello.txt" });
    expect(contents).toMatchObject([{ text: content }]);
    const stream = await streamResource(client, "files://demo/hello.txt");
    expect(await new Response(stream.body).text()).toBe(content);
    await client.close();
  });

  test("every entry that names no module of Node loads: none draws random bytes or starts a timer by itself", async () => {
    await using worker = await startWorker(await bundleWorker("programs/worker-imports.ts"));
    const counts = (await (await fetch(worker.origin)).json()) as number[];
    expect(Math.min(...counts)).toBeGreaterThan(0);
  });

  test.each(["crypto.randomUUID()", "setTimeout(() => {}, 1_000)"])(
    "a module that calls %s as it loads does not start",
    async (call) => {
      const code = `const value = ${call}; export default { fetch: () => new Response(String(value)) };`;
      await expect(startWorker(code)).rejects.toThrow("global scope");
    },
  );
});
