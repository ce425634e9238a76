import { createServer } from "node:http";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createSidecar } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { expect, test } from "vitest";
import { post, streaming } from "./call.ts";
import { listen, serve } from "./serve.ts";

test("a sidecar serves what another process with its keys granted, and nothing else", async () => {
  const storage = createMemoryBackend({ "a.bin": "0123456789" });
  const keys = [generateKey()];
  const server = createServer((req, res) => sidecar(req, res));
  const endpoint = `${await listen(server)}/bytes`;
  const options = { storage, baseUri: "files://demo/", endpoint, keys };
  const sidecar = toNodeHandler(createSidecar(createSluice(options)));

  const { url } = await serve({ sluice: options, http: { path: "/mcp" } });
  const capabilities = streaming({ prefer: ["downloadUrl"] });
  const json = await post(url, "legacy", "files://demo/a.bin", { capabilities });
  const { result } = (await json.json()) as { result: { downloadUrl: string } };
  expect(result.downloadUrl.startsWith(`${endpoint}/streams/`)).toBe(true);
  expect(await (await fetch(result.downloadUrl)).text()).toBe("0123456789");

  for (const other of [endpoint, `${endpoint}/`, `${endpoint}/streams`, "/"]) {
    const answer = await fetch(new URL(other, endpoint), { method: "POST", body: "{}" });
    expect(answer.status).toBe(404);
  }
});
