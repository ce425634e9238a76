import { createStreaming as createPortable } from "../src/index.ts";
import { createStreaming, streamResource } from "@sluice/client";
import { streamingCapabilities } from "@sluice/client/internal";
import { describe, expect, test, vi } from "vitest";
import { startFileServer } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";

const content = Buffer.from("content");

describe.each([
  ["Node", createStreaming],
  ["pages", createPortable],
])("createStreaming of %s", (_, create) => {
  test("gives the fetch and the capabilities that belong together", async () => {
    await using server = await startFileServer({ content });
    const { fetch, capabilities } = create({ maxStreamBytes: 1_000, prefer: ["downloadUrl"] });
    expect(capabilities).toEqual(
      streamingCapabilities({ maxStreamBytes: 1_000, prefer: ["downloadUrl"] }),
    );
    const { body } = await streamResource(createRawClient(server.url, fetch), "x://a");
    expect(await new Response(body).text()).toBe("content");
  });

  test("a fetch of the caller's carries the bytes too", async () => {
    await using server = await startFileServer({ content, delivery: "direct" });
    const through = vi.fn<typeof fetch>((input, init) => globalThis.fetch(input, init));
    const client = createRawClient(server.url, create({ fetch: through }).fetch);
    const { body } = await streamResource(client, "x://a", { prefer: ["direct"] });
    expect(await new Response(body).text()).toBe("content");
    expect(through).toHaveBeenCalledTimes(1);
  });

  test("rejects values that make no sense", () => {
    expect(() => create({ bytes: "nodejs" as "node" })).toThrow("bytes");
    expect(() => create({ maxStreamBytes: 0 })).toThrow("maxStreamBytes 0 is not a byte count");
  });
});

test("rejects an option that does not exist, with the nearest name", () => {
  expect(() => createStreaming({ byte: "node" } as object)).toThrow("did you mean bytes?");
});

test("with bytes: node, a fetch of the caller's carries messages only; a page has no such bytes", async () => {
  await using server = await startFileServer({ content });
  const through = vi.fn<typeof fetch>((input, init) => globalThis.fetch(input, init));
  const { fetch } = createStreaming({ fetch: through, bytes: "node" });
  const { body } = await streamResource(createRawClient(server.url, fetch), "x://a");
  expect(await new Response(body).text()).toBe("content");
  expect(through).not.toHaveBeenCalled();
  await fetch(server.url, { method: "DELETE" });
  expect(through).toHaveBeenCalledTimes(1);
  expect(() => createPortable({ bytes: "node" })).toThrow(
    expect.objectContaining({ code: "unsupported" }),
  );
});
