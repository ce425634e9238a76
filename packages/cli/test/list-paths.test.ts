import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { SluiceError } from "@sluice/core";
import { expect, onTestFinished, test } from "vitest";
import { describeFailure } from "../src/terminal/failure.ts";
import { runHere } from "./run-here.ts";

/** A server without an endpoint at any path. */
async function startPages(): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(404, { "content-type": "text/html" }).end("Cannot POST");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.each([
  ["/mcp/", (origin: string) => `; try ${origin}/mcp without the slash`],
  ["/sse", (origin: string) => `try ${origin}/mcp, or run sluice bridge --http ${origin}/sse and`],
  [
    "/a/sse/",
    (origin: string) => `try ${origin}/a/mcp, or run sluice bridge --http ${origin}/a/sse `,
  ],
  ["/", () => "; check that it is the address of an MCP server"],
  ["/mcp", () => "; check that it is the address of an MCP server"],
])("ls of a path that is not the endpoint says what to try: %s", async (path, advice) => {
  const origin = await startPages();
  const { status, stderr } = await runHere(["ls", `${origin}${path}`]);
  expect(status).toBe(8);
  expect(stderr).toContain(advice(origin));
});

test("a failure tells each part of its message once", () => {
  const error = new SluiceError("protocol", "a answered: MCP error -1: MCP error -1: no; its log");
  expect(describeFailure(error).line).toContain("a answered: MCP error -1: no");
});
