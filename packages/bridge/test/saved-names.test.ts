import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { callTool, handWritten, hostOf, makeFolders } from "./filing.ts";

describe("a saved file", () => {
  test.each`
    uri                 | mimeType                      | path         | name
    ${"acme://report"}  | ${"application/pdf"}          | ${undefined} | ${"report.pdf"}
    ${"acme://report"}  | ${"Text/CSV; charset=utf-8"}  | ${undefined} | ${"report.csv"}
    ${"acme://report"}  | ${"application/pdf"}          | ${"in/"}     | ${"in/report.pdf"}
    ${"acme://report"}  | ${"application/pdf"}          | ${"mine"}    | ${"mine"}
    ${"acme://a.data"}  | ${"application/pdf"}          | ${undefined} | ${"a.data"}
    ${"acme://LICENSE"} | ${"text/plain"}               | ${undefined} | ${"LICENSE"}
    ${"acme://report"}  | ${"application/octet-stream"} | ${undefined} | ${"report"}
    ${"acme://report"}  | ${"acme/unknown"}             | ${undefined} | ${"report"}
    ${"acme://report"}  | ${7}                          | ${undefined} | ${"report"}
  `("is named $name if $uri has the type $mimeType and the path is $path", async (row) => {
    const { uri, mimeType, path, name } = row;
    const { save } = makeFolders();
    const url = await handWritten(({ method }) =>
      method === "resources/read"
        ? { result: { contents: [{ uri, mimeType, text: "it" }] } }
        : undefined,
    );
    const client = await hostOf(url, { saveTo: save });
    const { facts } = await callTool(client, "save_resource", { uri, ...(path && { path }) });
    expect(facts["path"]).toBe(join(save, name));
    expect(existsSync(facts["path"] as string)).toBe(true);
  });
});

describe("a link that the server declares as application/pdf", () => {
  test.each`
    answered                      | name
    ${"application/octet-stream"} | ${"1.pdf"}
    ${undefined}                  | ${"1.pdf"}
    ${"text/csv"}                 | ${"1.csv"}
  `("is saved as $name if the response has the type $answered", async ({ answered, name }) => {
    const { save } = makeFolders();
    let link = "";
    const url = await handWritten(
      ({ method }) => {
        const block = { type: "resource_link", uri: link, name: "a", mimeType: "application/pdf" };
        return method === "tools/call" ? { result: { content: [block] } } : undefined;
      },
      (_request, response) => {
        response.writeHead(200, answered && { "content-type": answered }).end("bytes");
      },
    );
    link = new URL("/d/1", url).href;
    const client = await hostOf(url, { saveTo: save });
    await client.callTool({ name: "export" });
    const { facts } = await callTool(client, "save_resource", { uri: link });
    expect(facts["path"]).toBe(join(save, name));
  });
});
