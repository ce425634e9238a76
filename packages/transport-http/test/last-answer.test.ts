import { createServer } from "node:http";
import { createByteAccount } from "@sluice/server";
import { hardenServer } from "@sluice/transport-http/node";
import { expect, test } from "vitest";
import { sendResponse } from "../src/lib/send-response.ts";
import { listen } from "./serve.ts";

test("the last answer that a connection may have says so, whatever the handler says", async () => {
  const server = hardenServer(createServer());
  server.maxRequestsPerSocket = 1;
  server.on("request", (_req, res) => {
    const headers = { "content-type": "text/event-stream", connection: "keep-alive" };
    const unsent = createByteAccount(2 ** 20).open();
    void sendResponse(res, new Response("data: {}\n\n", { headers }), { unsent });
  });
  const url = await listen(server);
  for (let n = 0; n < 3; n++) {
    const response = await fetch(url);
    await response.text();
    expect(response.status).toBe(200);
    expect(response.headers.get("connection")).toBe("close");
  }
});
