import { createMemoryBackend, type MemoryBackend } from "@sluice/storage";
import { WebSocket } from "ws";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect, sdkNames } from "./connect.ts";
import { initialize } from "./raw-socket.ts";
import { serve, uri, type Served } from "./serve.ts";

interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: { readonly uri?: string };
  readonly result?: { readonly capabilities?: { readonly resources?: object } };
  readonly error?: object;
}

/** A peer in the session revision that knows WebSocket and JSON alone. */
async function openPeer({ url }: Served) {
  const socket = new WebSocket(url, "mcp");
  onTestFinished(() => socket.terminate());
  const received: Message[] = [];
  socket.on("message", (data: Buffer) => received.push(JSON.parse(data.toString()) as Message));
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  const send = (message: object): void =>
    socket.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  return {
    received,
    send,
    async ask(id: string, method: string, params: object = {}): Promise<Message> {
      send({ id, method, params });
      await expect.poll(() => received.some((each) => each.id === id)).toBe(true);
      return received.find((each) => each.id === id)!;
    },
    methods: () => received.flatMap(({ method }) => method ?? []),
  };
}

async function serveMemory(): Promise<{ served: Served; memory: MemoryBackend }> {
  const memory = createMemoryBackend({ "a.bin": "1", "b.bin": "1" });
  return { memory, served: await serve({ sluice: { storage: memory } }) };
}

describe("a peer in the session revision that knows WebSocket and JSON alone", () => {
  test("is promised subscriptions, and gets the changes that it subscribed to", async () => {
    const { served, memory } = await serveMemory();
    const peer = await openPeer(served);
    const { id, method, params } = initialize;
    const opened = await peer.ask(id, method, params);
    expect(opened.result?.capabilities?.resources).toMatchObject({
      subscribe: true,
      listChanged: true,
    });
    peer.send({ method: "notifications/initialized" });
    expect(await peer.ask("sub", "resources/subscribe", { uri })).toMatchObject({ result: {} });
    let version = 1;
    await expect
      .poll(() => {
        memory.put("b.bin", `${(version += 1)}`);
        memory.put("a.bin", `${version}`);
        return peer.received.find((each) => each.method === "notifications/resources/updated");
      })
      .toMatchObject({ params: { uri } });
    const uris = peer.received.flatMap((each) => each.params?.uri ?? []);
    expect(new Set(uris)).toEqual(new Set([uri]));
    expect(await peer.ask("end", "resources/unsubscribe", { uri })).toMatchObject({ result: {} });
  });

  test("learns that the list changed after it was given the list", async () => {
    const { served, memory } = await serveMemory();
    const peer = await openPeer(served);
    await peer.ask(initialize.id, initialize.method, initialize.params);
    await peer.ask("list", "resources/list");
    let added = 0;
    await expect
      .poll(() => {
        memory.put(`new-${(added += 1)}.bin`, "1");
        return peer.methods();
      })
      .toContain("notifications/resources/list_changed");
  });
});

test.each(sdkNames.filter((name) => name !== "SDK v2, modern"))(
  "%s gets changes over WebSocket of a resource that it subscribed to, and of the list",
  async (sdk) => {
    const { served, memory } = await serveMemory();
    const { client } = await connect(sdk, served.url);
    const told: string[] = [];
    client.fallbackNotificationHandler = async ({ method }) => void told.push(method);
    await client.listResources();
    await client.subscribeResource({ uri });
    let version = 1;
    await expect
      .poll(() => {
        memory.put("a.bin", `${(version += 1)}`);
        memory.put(`new-${version}.bin`, "1");
        return new Set(told);
      })
      .toEqual(
        new Set(["notifications/resources/updated", "notifications/resources/list_changed"]),
      );
    await client.close();
  },
);
