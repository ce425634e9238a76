import { streamResource } from "@sluice/client";
import { expect, test } from "vitest";
import { connect } from "../bed/clients.ts";
import { startProgram } from "../bed/program.ts";
import type { SdkExampleHello, SdkExampleSettings } from "../bed/programs/serve-sdk-example.ts";

const content = { text: "0123456789", times: 20_000 };
const whole = content.text.repeat(content.times);
const uri = "files://sdk/a.bin";

function start(example: string, delivery: SdkExampleSettings["delivery"]) {
  const settings: SdkExampleSettings = { example, content, delivery };
  return startProgram<SdkExampleHello>("serve-sdk-example", settings);
}

test.each([
  ["simpleStreamableHttp", "direct"],
  ["simpleStreamableHttp", "downloadUrl"],
  ["jsonResponseStreamableHttp", "direct"],
] as const)(
  "the SDK's own example %s serves resources and streams them by %s with two lines more",
  async (example, delivery) => {
    await using program = await start(example, delivery);
    for (const sdk of ["SDK v1", "SDK v2, legacy"] as const) {
      const client = await connect(sdk, program.hello.url);
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
  await using program = await start("simpleStatelessStreamableHttp", "direct");
  const { url } = program.hello;
  const client = await connect("SDK v1", url);
  const { resources } = await client.listResources();
  expect(resources.map((each) => each.uri)).toEqual(["https://example.com/greetings/default", uri]);
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
