// What a web page of another site can make a browser send to a server: another Host, by rebinding DNS, or another Origin.
import { once } from "node:events";
import { Agent, request, type ClientRequest, type IncomingMessage } from "node:http";

/** How to ask. */
export interface ForeignOptions {
  /** Paths beside the endpoint and invented ones below it, such as those of a genuine download URL. */
  readonly paths?: readonly string[];
  /** Bearer token, so that nothing but the gate refuses. */
  readonly token?: string;
}

/** A request, and the status of its answer. */
export interface ForeignAnswer {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly call?: string;
  readonly status: number;
}

const calls = [
  "initialize",
  "server/discover",
  "ping",
  "tools/list",
  "tools/call",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "resources/stream",
  "resources/subscribe",
  "subscriptions/listen",
  "files/authorizeUpload",
  "notifications/initialized",
];
const methods = ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"];

const isDeep = process.env["SLUICE_DEEP"] !== undefined;

/** Foreign names with the port of the server, and foreign origins with its own name: nine pairs with `SLUICE_DEEP=1`, else three. */
function foreignHeaders({ host, port }: URL): Record<string, string>[] {
  const hosts = [
    "evil.example",
    `evil.example:${port}`,
    `${host.split(":")[0]}.evil.example:${port}`,
  ];
  const origins = ["http://evil.example", `http://evil.example:${port}`, "null", `https://${host}`];
  const few = [{ host: hosts[1]! }, { host, origin: origins[1]! }, { host, origin: "null" }];
  if (!isDeep) return few;
  return [
    ...hosts.map((name) => ({ host: name })),
    ...hosts.slice(0, 2).map((name) => ({ host: name, origin: `http://${name}` })),
    ...origins.map((origin) => ({ host, origin })),
  ];
}

/**
 * Asks a server everything that it has with a foreign Host or Origin: every call with each pair, and every method at every
 * path with each pair only with `SLUICE_DEEP=1`, else with one of them. Gives what was answered with anything but 403 and 421,
 * which is nothing for a server that is safe, and how many requests it were.
 */
export async function askForeign(
  endpoint: string,
  { paths = [], token }: ForeignOptions = {},
): Promise<{ readonly wrong: readonly ForeignAnswer[]; readonly count: number }> {
  const url = new URL(endpoint);
  const base = url.pathname.replace(/\/$/, "");
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const asked: Promise<ForeignAnswer>[] = [];
  const ask = (method: string, path: string, own: Record<string, string>, call?: string): void => {
    const headers = {
      accept: "application/json, text/event-stream, */*",
      "mcp-protocol-version": "2025-11-25",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(call !== undefined && { "content-type": "application/json" }),
      ...own,
    };
    const upgrades = "upgrade" in own;
    const sent = request({
      host: url.hostname,
      port: url.port,
      method,
      path,
      headers,
      agent: upgrades ? false : agent,
    });
    asked.push(
      statusOf(sent).then((status) => ({
        method,
        path,
        headers: own,
        status,
        ...(call !== undefined && { call }),
      })),
    );
    const params = { name: "x", uri: "files://demo/a.txt", arguments: {} };
    sent.end(
      call === undefined
        ? undefined
        : JSON.stringify({ jsonrpc: "2.0", id: 1, method: call, params }),
    );
  };
  const below = ["streams/x", "uploads/x", "uploads/x/y", "upload-page/x", "resume/x"];
  const all = [base || "/", ...below.map((path) => `${base}/${path}`), ...paths];
  const pairs = foreignHeaders(url);
  for (const [turn, own] of pairs.entries()) {
    for (const call of calls) ask("POST", base || "/", own, call);
    for (const [row, path] of all.entries())
      for (const [column, method] of methods.entries())
        if (isDeep || (row + column) % pairs.length === turn) ask(method, path, own);
    ask("GET", base || "/", { ...own, ...upgrade });
  }
  const answers = await Promise.all(asked);
  agent.destroy();
  const wrong = answers.filter(({ status }) => status !== 403 && status !== 421);
  return { wrong, count: answers.length };
}

const upgrade = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  "sec-websocket-protocol": "mcp",
};

/** 101 for an upgrade that was taken, 0 for a connection that ended without an answer. */
async function statusOf(sent: ClientRequest): Promise<number> {
  const taken = once(sent, "upgrade").then(([, socket]) => {
    (socket as { destroy(): void }).destroy();
    return 101;
  });
  const answered = once(sent, "response").then(([response]) => {
    (response as IncomingMessage).resume();
    return (response as IncomingMessage).statusCode!;
  });
  return Promise.race([taken, answered]).catch(() => 0);
}
