// Servers that take a call and give no answer to it that can be read.
import { createHttpUpstream } from "@sluice/bridge";
import { expect, test } from "vitest";
import { bridged, createHost } from "./bridged.ts";
import { handWritten } from "./filing.ts";
import { scripted } from "./scripted.ts";

const deep = `${"[".repeat(200)}${"]".repeat(200)}`;
const result = (id: unknown, value = "{}") =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[],"structuredContent":{"v":${value}}}}`;

/** What a server says to a call, as the text of its answer. */
const answers: Record<string, (id: unknown) => string> = {
  "an empty batch": () => "[]",
  "a batch of other answers": () => `[${result(12_345)}]`,
  "an answer to another call": () => result(12_345),
};

async function callAt(url: URL): Promise<unknown> {
  const { transport } = bridged({ upstream: createHttpUpstream({ url }) });
  const client = createHost("legacy");
  await client.connect(transport);
  return client.callTool({ name: "x" }).catch((error: Error) => error.message);
}

test.each(Object.entries(answers))("over HTTP %s is an error for the call", async (_what, text) => {
  const url = await handWritten(({ id, method }, response) => {
    if (method === "tools/call")
      response.writeHead(200, { "content-type": "application/json" }).end(text(id));
    return undefined;
  });
  expect(await callAt(url)).toContain("No answer from");
});

test("over HTTP 202 is an error for the call, and a batch with its answer is none", async () => {
  let given: (id: unknown) => string | undefined = () => undefined;
  const url = await handWritten(({ id, method }, response) => {
    if (method !== "tools/call") return undefined;
    const text = given(id);
    if (text === undefined) response.writeHead(202).end();
    else response.writeHead(200, { "content-type": "application/json" }).end(text);
    return undefined;
  });
  expect(await callAt(url)).toContain("No answer from");
  given = (id) => `[${result(id)}]`;
  expect(await callAt(url)).toMatchObject({ structuredContent: { v: {} } });
});

test.each([
  ["a batch", "`[${text}]`", "{}"],
  ["nested deeper than 128 levels", "text", deep],
])("of a program, an answer that is %s is an error for the call", async (_what, line, value) => {
  const upstream = scripted(`(message) => {
    if (message.method === "initialize") return start(message);
    if (message.id === undefined) return;
    const text = ${JSON.stringify(result("ID", value))}.replace('"ID"', JSON.stringify(message.id));
    process.stdout.write(${line} + "\\n");
  }`);
  const { transport } = bridged({ upstream });
  const client = createHost("legacy");
  await client.connect(transport);
  await expect(client.callTool({ name: "x" })).rejects.toThrow("cannot be read");
});
