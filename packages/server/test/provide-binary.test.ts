/**
 * Providers whose bytes go beside the answer to `resources/read`.
 * @module
 */
import { McpServer } from "@modelcontextprotocol/server";
import type { BinaryReads, SluiceOptions } from "@sluice/server";
import { expect, test } from "vitest";
import { alice, bodyOf, createHouse } from "./redeeming.ts";
import { talkTo } from "./talking.ts";

const mostBytes = 100;

/** Takes the bytes, and reads them at once. */
const binary: BinaryReads = {
  maxBytes: () => mostBytes,
  deliver(_ctx, { transfer }) {
    void bodyOf({ status: 200, headers: [], transfer });
    return { blob: "", _meta: { beside: true } };
  },
};

/** A server with a report, and how often the report was made. */
function serveReport(size: number, options: Partial<SluiceOptions> = {}) {
  const house = createHouse({ principal: () => alice, ...options });
  let made = 0;
  house.sluice.provide("reports://acme/a.bin", {
    open() {
      made += 1;
      return new Uint8Array(size);
    },
    describe: () => ({ size }),
  });
  const talk = talkTo(house.sluice, (mcp: McpServer) => void house.sluice.attach(mcp, { binary }));
  const read = () => talk("modern", "resources/read", { params: { uri: "reports://acme/a.bin" } });
  return { house, talk, read, made: () => made };
}

test("a resource that fits beside the answer is made once", async () => {
  const { read, made } = serveReport(mostBytes);
  const { message } = await read();
  expect(message.result.contents).toMatchObject([{ _meta: { beside: true } }]);
  expect(made()).toBe(1);
});

test("a resource that is too large for it is made once, for the answer in JSON", async () => {
  const { read, made } = serveReport(mostBytes + 1);
  const { message } = await read();
  expect(message.result.contents[0].blob).toHaveLength(Math.ceil((mostBytes + 1) / 3) * 4);
  expect(made()).toBe(1);
});

test("nothing is made for a caller that has no permit left, and the permit comes back", async () => {
  const { talk, read, made } = serveReport(mostBytes, { limits: { streams: { perPrincipal: 1 } } });
  const params = { uri: "files://demo/a.bin" };
  const { slot } = await talk("modern", "resources/stream", { params });
  const { message } = await read();
  expect(message.error!.data.reason).toBe("busy");
  expect(made()).toBe(0);
  await bodyOf((slot as any).reply);
  for (let n = 0; n < 3; n++) expect((await read()).message.error).toBeUndefined();
});
