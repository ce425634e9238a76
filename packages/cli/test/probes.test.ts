// What supervisors and balancers ask a server, over real connections.
import { once } from "node:events";
import { request } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { beginToServe, listen, portOf } from "../src/serve/listen.ts";
import { ensureNoProbe } from "../src/serve/probes.ts";
import { runHere } from "./run-here.ts";

/** Status and text of an answer. */
async function ask(port: number, path: string, method = "GET", host = "10.0.0.7"): Promise<string> {
  const sent = request({ port, path, method, headers: { host } }).end();
  const [response] = await once(sent, "response");
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return `${response.statusCode} ${text}`.trim();
}

async function open() {
  const server = await listen("127.0.0.1", 0);
  onTestFinished(() => void server.close());
  return { server, port: portOf(server) };
}

test("before it serves, the process is healthy and not ready, and everything else comes later", async () => {
  const { port } = await open();
  expect(await ask(port, "/healthz")).toBe("200 ok");
  expect(await ask(port, "/readyz")).toBe("503 not ready");
  expect(await ask(port, "/mcp")).toBe("503");
});

test("while it serves it is both, whatever the Host, and only in these spellings", async () => {
  const { server, port } = await open();
  beginToServe(server, (_request, response) => void response.writeHead(418).end());
  for (const path of ["/healthz", "/readyz"]) {
    expect(await ask(port, path)).toBe("200 ok");
    expect(await ask(port, path, "HEAD", "files.example.com")).toBe("200");
    for (const other of [
      `${path}/`,
      `${path}?a`,
      path.toUpperCase(),
      `/mcp${path}`,
      `/%68${path.slice(2)}`,
    ])
      expect(await ask(port, other), other).toBe("418");
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS"])
      expect(await ask(port, path, method), method).toBe("418");
  }
});

test("a server that ends is no longer ready, on connections that are still open", async () => {
  const { server, port } = await open();
  beginToServe(server, (_request, response) => void response.writeHead(418).end());
  server.prependListener("request", () => void server.close());
  expect(await ask(port, "/readyz")).toBe("503 not ready");
});

test.each(["/healthz", "/readyz"])("an endpoint is not where %s is answered", async (path) => {
  const url = `http://127.0.0.1:2532${path}`;
  const bridge = ["bridge", "--http", "http://127.0.0.1:1/mcp"];
  for (const command of [["serve", "."], bridge]) {
    const { stderr, status } = await runHere([...command, "--port", "0", "--public-url", url]);
    expect([status, stderr]).toEqual([
      2,
      expect.stringContaining("pass --public-url with another path"),
    ]);
  }
  expect(() => ensureNoProbe(`http://127.0.0.1:2532/mcp${path}`)).not.toThrow();
});
