import { InMemoryTransport, type McpServer } from "@modelcontextprotocol/server";

/** A session of the legacy era over a lasting connection, and what its server sends by itself. */
export async function openSession(mcp: McpServer) {
  const [near, far] = InMemoryTransport.createLinkedPair();
  const notifications: { method: string; params?: { uri?: string } }[] = [];
  const answers = new Map<number, (message: any) => void>();
  Object.assign(near, {
    onmessage(message: any) {
      if (message.method) notifications.push(message);
      else answers.get(message.id)?.(message);
    },
  });
  await mcp.connect(far);
  await near.start();
  let id = 0;
  const call = async (method: string, params: object = {}): Promise<any> => {
    const mine = ++id;
    const answer = new Promise((resolve) => answers.set(mine, resolve));
    await near.send({ jsonrpc: "2.0", id: mine, method, params } as never);
    return answer;
  };
  await call("initialize", {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "raw", version: "1" },
  });
  await near.send({ jsonrpc: "2.0", method: "notifications/initialized" });
  return {
    call,
    notifications,
    subscribe: (name: string) => call("resources/subscribe", { uri: `files://demo/${name}` }),
    unsubscribe: (name: string) => call("resources/unsubscribe", { uri: `files://demo/${name}` }),
    close: () => near.close(),
  };
}
