import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { FILE_KEYWORD } from "@sluice/core/internal";
import { describe, expect, test } from "vitest";
import { callTool, handWritten, hostOf, makeFolders } from "./filing.ts";

const string = { type: "string" };
const listOf = (items: object) => ({ type: "array", items });
const objectOf = (properties: object) => ({ type: "object", properties });
const item = objectOf({ path: string, content: string });

/** What `send_file` says and does with a tool `take` that has these arguments, and gets `text`. */
async function sending(properties: object, given: object, more: object = {}, text = "hello") {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), text);
  const calls: unknown[] = [];
  const tools = [{ name: "take", inputSchema: { type: "object", properties, ...more } }];
  const url = await handWritten(({ method, params }) => {
    if (method === "tools/list") return { result: { tools } };
    calls.push(params["arguments"]);
    return { result: { content: [{ type: "text", text: "done" }] } };
  });
  const host = new Client({ name: "h", version: "1" });
  const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 20 }, host);
  const said = await callTool(client, "send_file", { path: "my.txt", tool: "take", ...given });
  return { said, calls };
}

const asText = { as: "text" };

describe("a file goes to", () => {
  test.each`
    where                      | properties                                          | given                                                                                 | called
    ${"an item of an object"}  | ${{ files: listOf(item) }}                          | ${{ argument: "files[0].content", ...asText, arguments: { files: [{ path: "a" }] } }} | ${{ files: [{ path: "a", content: "hello" }] }}
    ${"the next item"}         | ${{ files: listOf(item) }}                          | ${{ argument: "files[1].content", ...asText, arguments: { files: [{ path: "a" }] } }} | ${{ files: [{ path: "a" }, { content: "hello" }] }}
    ${"an array of strings"}   | ${{ lines: listOf(string) }}                        | ${{ argument: "lines", ...asText }}                                                   | ${{ lines: ["hello"] }}
    ${"the end of it"}         | ${{ lines: listOf(string) }}                        | ${{ argument: "lines", ...asText, arguments: { lines: ["a"] } }}                      | ${{ lines: ["a", "hello"] }}
    ${"a member of an object"} | ${{ file: item }}                                   | ${{ argument: "file.content", ...asText, arguments: { file: { path: "a" } } }}        | ${{ file: { path: "a", content: "hello" } }}
    ${"a string"}              | ${{ content: string }}                              | ${{ argument: "content", ...asText }}                                                 | ${{ content: "hello" }}
    ${"a name with a dot"}     | ${{ "a.b": string }}                                | ${{ argument: "a.b", ...asText }}                                                     | ${{ "a.b": "hello" }}
    ${"the only string"}       | ${{ content: string }}                              | ${asText}                                                                             | ${{ content: "hello" }}
    ${"the only string left"}  | ${{ name: string, body: string }}                   | ${{ ...asText, arguments: { name: "n" } }}                                            | ${{ name: "n", body: "hello" }}
    ${"base64 in an array"}    | ${{ files: listOf({ ...string, format: "byte" }) }} | ${{}}                                                                                 | ${{ files: ["aGVsbG8="] }}
  `("$where", async ({ properties, given, called }) => {
    const { said, calls } = await sending(properties, given);
    expect(said.isError).toBe(false);
    expect(calls).toEqual([called]);
  });

  test("a member that a Python server describes by a reference", async () => {
    const more = { $defs: { File: item } };
    const given = { argument: "files[0].content", ...asText };
    const files = listOf({ $ref: "#/$defs/File" });
    expect((await sending({ files }, given, more)).calls).toEqual([
      { files: [{ content: "hello" }] },
    ]);
  });
});

describe("advice that can be followed:", () => {
  test.each`
    case                              | properties                                                                   | given                                   | advice
    ${"an array of objects"}          | ${{ files: listOf(item) }}                                                   | ${{ argument: "files" }}                | ${/pass argument: "files\[0\]\.path" or "files\[0\]\.content", with as: "text"/}
    ${"an array of objects, as text"} | ${{ files: listOf(item) }}                                                   | ${{ argument: "files", ...asText }}     | ${/pass argument: "files\[0\]\.path" or "files\[0\]\.content", with as: "text"/}
    ${"an array of strings"}          | ${{ lines: listOf(string) }}                                                 | ${{ argument: "lines" }}                | ${/pass as: "text"/}
    ${"a string"}                     | ${{ content: string }}                                                       | ${{ argument: "content" }}              | ${/pass as: "text"/}
    ${"another name"}                 | ${{ content: string }}                                                       | ${{ argument: "body" }}                 | ${/pass argument: "content", with as: "text"/}
    ${"a number"}                     | ${{ n: { type: "number" } }}                                                 | ${{ argument: "n", ...asText }}         | ${/call the tool without send_file/}
    ${"no argument"}                  | ${{ title: string, body: string }}                                           | ${{ arguments: { title: "t" } }}        | ${/would be called without the file; pass argument: "body", with as: "text"; .*pass as: "asked"/}
    ${"no argument, as text"}         | ${{ title: string, body: string }}                                           | ${asText}                               | ${/pass argument: "title" or "body", with as: "text"/}
    ${"base64 only in words"}         | ${{ path: string, encoding: { ...string, description: "utf8, or base64" } }} | ${{ arguments: { path: "a" } }}         | ${/pass argument: "encoding"/}
    ${"two of base64"}                | ${{ a_b64: string, b_b64: string }}                                          | ${{}}                                   | ${/pass argument: "a_b64" or "b_b64";/}
    ${"two of files"}                 | ${{ a: { [FILE_KEYWORD]: {} }, b: { [FILE_KEYWORD]: {} } }}                  | ${{}}                                   | ${/pass argument: "a" or "b";/}
    ${"too far in an array"}          | ${{ lines: listOf(string) }}                                                 | ${{ argument: "lines[2]", ...asText }}  | ${/write \[0\]/}
    ${"asked with an argument"}       | ${{ content: string }}                                                       | ${{ argument: "content", as: "asked" }} | ${/leave it out/}
    ${"another word"}                 | ${{ content: string }}                                                       | ${{ as: "base64" }}                     | ${/as is "text", "asked", or left out/}
  `("$case", async ({ properties, given, advice }) => {
    const { said, calls } = await sending(properties, given);
    expect(said).toMatchObject({ isError: true, text: expect.stringMatching(advice) });
    expect(calls).toEqual([]);
  });
});

test("a tool is called without the file when the call says that it asks, or its schema does", async () => {
  const asked = await sending({ note: string }, { as: "asked" });
  expect(asked.calls).toEqual([{}]);
  const named = await sending({ upload_id: string, note: string }, {});
  expect(named.calls).toEqual([{}]);
  const full = await sending({ note: string }, { arguments: { note: "n" } });
  expect(full.calls).toEqual([{ note: "n" }]);
});

test("a schema that refers to itself has an end", async () => {
  const names = Array.from({ length: 60 }, (_, at) => `p${at}`);
  const node = {
    ...objectOf(Object.fromEntries(names.map((name) => [name, { $ref: "#/$defs/Node" }]))),
    anyOf: names.map(() => ({ $ref: "#/$defs/Node" })),
  };
  const { said } = await sending(
    { tree: { $ref: "#/$defs/Node" } },
    { argument: "tree" },
    {
      $defs: { Node: node },
    },
  );
  expect(said.isError).toBe(true);
});
