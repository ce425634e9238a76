// @module-tag slow
import { streamResource } from "@sluice/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../bed/clients.ts";
import { startProgram, type Program } from "../bed/program.ts";
import type { SdkExampleHello, SdkExampleSettings } from "../bed/programs/serve-sdk-example.ts";

const content = { text: "0123456789", times: 20_000 };
const whole = content.text.repeat(content.times);
const uriOf = (mode: string): string => `files://sdk/${mode}`;

let program: Program<SdkExampleHello>;
beforeAll(async () => {
  const settings: SdkExampleSettings = {
    examples: [
      "simpleStreamableHttp",
      "jsonResponseStreamableHttp",
      "simpleStatelessStreamableHttp",
    ],
    content,
    modes: ["direct", "downloadUrl"],
  };
  program = await startProgram<SdkExampleHello>("serve-sdk-example", settings);
});
afterAll(() => program?.[Symbol.asyncDispose]());

test.each([
  ["simpleStreamableHttp", "direct"],
  ["simpleStreamableHttp", "downloadUrl"],
  ["jsonResponseStreamableHttp", "direct"],
] as const)(
  "the SDK's own example %s serves resources and streams them by %s with two lines more",
  async (example, delivery) => {
    const uri = uriOf(delivery);
    for (const sdk of ["SDK v1", "SDK v2, legacy"] as const) {
      const client = await connect(sdk, program.hello[example]!);
      const { resources } = await client.listResources();
      expect(resources.map((each) => each.uri)).toContain(uri);
      const { contents } = await client.readResource({ uri });
      expect(contents[0]).toMatchObject({ uri });
      const stream = await streamResource(client, uri);
      expect(stream.mode).toBe(delivery);
      expect(await new Response(stream.body).text()).toBe(whole);
      const { tools } = await client.listTools();
      const greet = tools.find(({ name }) => name === "greet");
      const answer = await client.callTool({ name: greet!.name, arguments: { name: "Ann" } });
      expect(answer.content).toMatchObject([{ text: expect.stringContaining("Ann") }]);
      await client.close();
    }
  },
);

test("the SDK's own stateless example serves resources, and streams them to a request that declares it", async () => {
  const uri = uriOf("direct");
  const url = program.hello["simpleStatelessStreamableHttp"]!;
  const client = await connect("SDK v1", url);
  const { resources } = await client.listResources();
  const own = "https://example.com/greetings/default";
  expect(resources.map((each) => each.uri)).toEqual([own, uri, uriOf("downloadUrl")]);
  await client.close();
  const _meta = { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } };
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "resources/stream",
      params: { uri, _meta },
    }),
  });
  expect(await response.text()).toBe(whole);
});
