import type { Caller } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { post, streaming } from "./call.ts";
import { serve } from "./serve.ts";

const uri = "files://demo/a.txt";

test("handlers of both eras and the download route know the address of the client", async () => {
  const seen: (string | undefined)[] = [];
  const { url } = await serve({
    sluice: {
      storage: createMemoryBackend({ "a.txt": "a" }),
      principal({ address }: Caller) {
        seen.push(address);
        return { issuer: "", subject: "one", clientId: "" };
      },
    },
    node: { proxyHops: 1 },
  });
  const headers = { "x-forwarded-for": "203.0.113.9, 198.51.100.2" };
  const capabilities = streaming({ prefer: ["downloadUrl"] });
  for (const era of ["modern", "legacy"] as const)
    await (await post(url, era, uri, { headers, method: "resources/read" })).text();
  const json = await post(url, "modern", uri, { headers, capabilities });
  const { result } = (await json.json()) as { result: { downloadUrl: string } };
  expect((await fetch(result.downloadUrl, { headers })).status).toBe(200);
  expect(seen).toEqual(Array(seen.length).fill("198.51.100.2"));
  expect(seen.length).toBeGreaterThanOrEqual(4);
});
