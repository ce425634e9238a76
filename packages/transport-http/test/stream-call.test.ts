import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { post } from "./call.ts";
import { serve } from "./serve.ts";

const uri = "files://demo/a.bin";
const storage = createMemoryBackend({ "a.bin": "0123456789" });

/** Posts with the method spelled as some JSON writers do it, or as none does. */
function postSpelled(url: string, method: string, headers: Record<string, string> = {}) {
  return post(url, "modern", uri, { headers }, (input, init) =>
    fetch(input, { ...init, body: (init.body as string).replace("resources/stream", method) }),
  );
}

test.each([String.raw`resources\/stream`, String.raw`\u0072esources/str\u0065am`])(
  "a call is the same call when its method is written %s",
  async (method) => {
    const { url } = await serve({ sluice: { storage } });
    expect((await postSpelled(url, method)).headers.get("mcp-resource-uri")).toBe(uri);
    const misnamed = await postSpelled(url, method, { "mcp-name": "files://demo/b.bin" });
    expect([misnamed.status, await misnamed.json()]).toEqual([
      400,
      expect.objectContaining({ error: expect.objectContaining({ code: -32020 }) }),
    ]);
    const foreign = await postSpelled(url, method, { origin: "https://evil.example.com" });
    expect(foreign.status).toBe(403);
  },
);
