import { expect, test } from "vitest";
import { bridged, bridgedTo, createHost, rawHost } from "./bridged.ts";
import { startLegacyPeer, startModernPeer } from "./peers.ts";
import { scripted } from "./scripted.ts";

const methodsOf = (received: readonly Record<string, unknown>[]) =>
  received.map(({ method }) => method);

test("a session that a new server does not know is started again, with its level and subscriptions", async () => {
  const peer = await startLegacyPeer();
  const client = createHost("legacy");
  const bridge = bridgedTo(peer.url);
  await client.connect(bridge.transport);
  await client.setLoggingLevel("error");
  await client.subscribeResource({ uri: "test://a" });
  await peer.stop();

  const call = client.callTool({ name: "echo", arguments: { n: 1 } });
  await expect.poll(() => bridge.notes.some((note) => note.includes("is unreachable"))).toBe(true);
  const next = await startLegacyPeer(peer.port);
  expect(await call).toMatchObject({ content: [{ text: expect.stringContaining('"n":1') }] });
  expect(methodsOf(next.received)).toEqual(
    expect.arrayContaining([
      "initialize",
      "notifications/initialized",
      "logging/setLevel",
      "resources/subscribe",
    ]),
  );
  // the host's own words
  const [first, again] = [peer, next].map(({ received }) =>
    received.find(({ method }) => method === "initialize"),
  );
  expect(again!["params"]).toEqual(first!["params"]);
  expect(bridge.notes.some((note) => note.includes("is back"))).toBe(true);
});

test("a stateless server is called again when it is back", async () => {
  const peer = await startModernPeer();
  const client = createHost("modern");
  await client.connect(bridgedTo(peer.url).transport);
  await peer.stop();
  const call = client.callTool({ name: "echo", arguments: { n: 1 } });
  await startModernPeer(peer.port);
  expect(await call).toMatchObject({ content: [{ text: expect.stringContaining('"n":1') }] });
});

test.each(["legacy", "modern"] as const)(
  "a call that was open when a %s server died fails and says that it may have run",
  async (revision) => {
    const peer = await (revision === "legacy" ? startLegacyPeer : startModernPeer)();
    const client = createHost(revision);
    await client.connect(bridgedTo(peer.url, { limits: { reconnectMs: 1_000 } }).transport);
    const call = client.callTool({ name: "hang" });
    call.catch(() => {});
    await expect.poll(() => methodsOf(peer.received)).toContain("tools/call");
    await peer.stop();
    await expect(call).rejects.toThrow(/may have run/);
  },
);

test(
  "a server that stays away is an error after the deadline, and no end of the bridge",
  { tags: "slow" },
  async () => {
    const peer = await startModernPeer();
    const client = createHost("modern");
    await client.connect(bridgedTo(peer.url, { limits: { reconnectMs: 300 } }).transport);
    await peer.stop();
    await expect(client.callTool({ name: "echo" })).rejects.toThrow(
      /nothing listens there \(ECONNREFUSED\); .*can be repeated/,
    );
    await startModernPeer(peer.port);
    expect(await client.callTool({ name: "echo" })).toBeDefined();
  },
);

const pidIn = (message: unknown) => (message as { result: { pid: number } }).result.pid;

const mortal = `(m) => {
  if (m.method === "initialize") start(m);
  else if (m.method === "die") process.kill(process.pid, "SIGKILL");
  else if (m.id !== undefined) answer(m.id, { pid: process.pid });
}`;

async function legacyHost(bridge: ReturnType<typeof bridged>) {
  const host = await rawHost(bridge.transport);
  await host.send({
    id: 0,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {} },
  });
  await expect.poll(() => host.got.length).toBe(1);
  await host.send({ method: "notifications/initialized" });
  return host;
}

test("a process that was killed is started again; its open calls fail", async () => {
  const bridge = bridged({ upstream: scripted(mortal) });
  const host = await legacyHost(bridge);
  await host.send({ id: 1, method: "pid" });
  await host.send({ id: 2, method: "tools/list" });
  await expect.poll(() => host.got.length).toBe(3);
  await host.send({ id: 3, method: "die" });
  await expect.poll(() => host.got.length).toBe(4);
  expect(host.got[3]).toMatchObject({
    id: 3,
    error: { code: -32_000, data: { retryable: false } },
  });
  await host.send({ id: 4, method: "pid" });
  await expect.poll(() => host.got.length).toBe(5);
  const pids = [1, 4].map((at) => pidIn(host.got[at]));
  expect(pids[0]).not.toBe(pids[1]);
});

test(
  "a process that ends again and again ends the bridge",
  { tags: "slow", timeout: 60_000 },
  async () => {
    const bridge = bridged({
      upstream: scripted(
        `(m) => { if (m.method === "initialize") { start(m); setTimeout(() => process.exit(1), 20); } }`,
      ),
      limits: { reconnectMs: 20_000 },
    });
    await legacyHost(bridge);
    await expect(bridge.ended).rejects.toThrow(/keeps exiting/);
  },
);

test("a program that is not there ends in an error that names it", async () => {
  const { createProcessUpstream } = await import("@sluice/bridge");
  const bridge = bridged({ upstream: createProcessUpstream({ command: "no-such-program" }) });
  const host = await rawHost(bridge.transport);
  await host.send({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  await expect
    .poll(() => host.got)
    .toMatchObject([{ id: 0, error: { message: expect.stringContaining("no-such-program") } }]);
});

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test("the process ends with the host, also when it takes no hint", async () => {
  const stubborn = `(m) => {
    process.on("SIGTERM", () => {});
    setInterval(() => {}, 1000);
    if (m.method === "initialize") start(m);
    else if (m.id !== undefined) answer(m.id, { pid: process.pid });
  }`;
  const bridge = bridged({ upstream: scripted(stubborn, { exitMs: 100 }) });
  const host = await legacyHost(bridge);
  await host.send({ id: 1, method: "pid" });
  await expect.poll(() => host.got.length).toBe(2);
  const pid = pidIn(host.got[1]);
  expect(isAlive(pid)).toBe(true);
  await bridge.transport.close();
  await bridge.ended;
  await expect.poll(() => isAlive(pid)).toBe(false);
});

test("a process that ignores the end of its input and SIGTERM is gone before hosts kill the bridge", async () => {
  const bridge = bridged({
    upstream: scripted(`(m) => {
      process.on("SIGTERM", () => {});
      setInterval(() => {}, 1000);
      if (m.method === "initialize") start(m);
      else if (m.id !== undefined) answer(m.id, { pid: process.pid });
    }`),
  });
  const host = await legacyHost(bridge);
  await host.send({ id: 1, method: "pid" });
  await expect.poll(() => host.got.length).toBe(2);
  const startedAt = performance.now();
  await bridge.transport.close();
  await bridge.ended;
  expect(performance.now() - startedAt).toBeLessThan(2_000);
  expect(isAlive(pidIn(host.got[1]))).toBe(false);
});

test("a process that closes its output and lives on is gone before the next one starts", async () => {
  const bridge = bridged({
    upstream: scripted(
      `(m) => {
        if (m.method === "initialize") start(m);
        else if (m.method === "mute") {
          process.on("SIGTERM", () => {});
          setInterval(() => {}, 1000);
          require("node:fs").closeSync(1);
        } else if (m.id !== undefined) answer(m.id, { pid: process.pid });
      }`,
      { exitMs: 300 },
    ),
  });
  const host = await legacyHost(bridge);
  await host.send({ id: 1, method: "pid" });
  await expect.poll(() => host.got.length).toBe(2);
  await host.send({ method: "mute" });
  await expect.poll(() => bridge.notes.some((note) => note.includes("is unreachable"))).toBe(true);
  expect(isAlive(pidIn(host.got[1]))).toBe(false);
  await host.send({ id: 2, method: "pid" });
  await expect.poll(() => host.got.length).toBe(3);
  expect(pidIn(host.got[2])).not.toBe(pidIn(host.got[1]));
});
