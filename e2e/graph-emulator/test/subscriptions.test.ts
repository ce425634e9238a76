import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type GraphEmulator, startGraphEmulator } from "@sluice/graph-emulator";
import { expect, test } from "vitest";
import { call } from "./graph-call.ts";

const until = (minutes: number): string => new Date(Date.now() + minutes * 60_000).toISOString();

/** A receiver; `echo` answers the handshake. */
async function startReceiver(echo: (token: string) => { type: string; text: string }) {
  const bodies: any[] = [];
  const server: Server = createServer((request, response) => {
    const token = new URL(request.url ?? "", "http://x").searchParams.get("validationToken");
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      if (token === null) bodies.push(JSON.parse(Buffer.concat(parts).toString()));
      const { type, text } = echo(token ?? "");
      response.writeHead(token === null ? 202 : 200, { "content-type": type }).end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    bodies,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
const subscribe = (emulator: GraphEmulator, notificationUrl: string, minutes = 60) =>
  call(emulator, "/subscriptions", {
    method: "POST",
    body: JSON.stringify({
      changeType: "updated",
      notificationUrl,
      resource: "drives/b!emulated/root",
      expirationDateTime: until(minutes),
      clientState: "secret",
    }),
  });

test("a receiver that echoes the token is told of every change, and never what changed", async () => {
  await using emulator = await startGraphEmulator();
  await using receiver = await startReceiver((text) => ({
    type: "text/plain; charset=utf-8",
    text,
  }));
  const { status, body } = await subscribe(emulator, receiver.url);
  expect(status).toBe(201);
  emulator.drive.put("a.txt", "x");
  await emulator.settleNotifications();
  expect(receiver.bodies).toHaveLength(1);
  expect(receiver.bodies[0].value[0]).toMatchObject({
    clientState: "secret",
    changeType: "updated",
  });
  expect(JSON.stringify(receiver.bodies)).not.toContain("a.txt");
  const path = `/subscriptions/${body.id}`;
  const renew = (minutes: number) =>
    call(emulator, path, {
      method: "PATCH",
      body: JSON.stringify({ expirationDateTime: until(minutes) }),
    });
  expect((await renew(120)).status).toBe(200);
  expect((await renew(42_301)).status).toBe(400);
  expect((await call(emulator, path, { method: "DELETE" })).status).toBe(204);
  emulator.drive.put("b.txt", "x");
  await emulator.settleNotifications();
  expect(receiver.bodies).toHaveLength(1);
});

test.each([
  ["still encoded", (token: string) => ({ type: "text/plain", text: encodeURIComponent(token) })],
  ["as HTML", (text: string) => ({ type: "text/html", text })],
  ["not at all", () => ({ type: "text/plain", text: "" })],
])("a receiver that gives the token back %s is refused", async (_, echo) => {
  await using emulator = await startGraphEmulator();
  await using receiver = await startReceiver(echo);
  expect((await subscribe(emulator, receiver.url)).status).toBe(400);
});

test("more than 42,300 minutes are refused", async () => {
  await using emulator = await startGraphEmulator();
  await using receiver = await startReceiver((text) => ({ type: "text/plain", text }));
  expect((await subscribe(emulator, receiver.url, 42_301)).status).toBe(400);
});
