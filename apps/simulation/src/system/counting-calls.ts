import type { McpServer } from "@modelcontextprotocol/server";
import type { Life, Machine } from "../process/machine.ts";
import type { Run } from "../run/profile.ts";
import type { World } from "../world/world.ts";
import { endpoint, type Cluster } from "./cluster.ts";
import { attempt } from "./workload.ts";

interface Message {
  readonly id?: string;
  readonly params?: { readonly progress?: number };
  readonly result?: { readonly content: readonly { readonly text: string }[] };
  readonly error?: { readonly message: string };
}

/** Greatest number of events of one call. */
const maxEvents = 25;

/** Calls of a tool that counts. What must hold: a client gets every number once and in order, and no call runs twice. */
export class CountingCalls {
  readonly #run: Run;
  readonly #runs: Map<string, number> = new Map();

  constructor(run: Run) {
    this.#run = run;
  }

  /** Adds the tool: it tells numbers from 1 on, and then that it is done. */
  addTo(server: McpServer, life: Life): void {
    const { world } = this.#run;
    server.registerTool("count", {}, async (context) => {
      const id = String(context.mcpReq.id);
      const runs = (this.#runs.get(id) ?? 0) + 1;
      this.#runs.set(id, runs);
      if (runs > 1) world.violate("TWICE", `${life.name} runs ${id} for the ${runs}. time`);
      const random = world.random(`tool ${id}`);
      const last = random.int(1, maxEvents);
      const gapMs = random.pick([1, 50, 1_000]);
      for (let progress = 1; progress <= last; progress++) {
        await world.sleep(random.next() * gapMs, life);
        const params = { progressToken: id, progress, message: "x".repeat(500) };
        await context.mcpReq.notify({ method: "notifications/progress", params });
      }
      return { content: [{ type: "text", text: String(last) }] };
    });
  }

  /** Opens a session and calls the tool. Gives how it ended: `ok` includes an error that the server answered with. */
  call(name: string, cluster: Cluster, machine: Machine): Promise<string> {
    return attempt(this.#run, name, machine, async () => {
      const life = machine.life!;
      const { withResumableFetch } = life.product;
      const { world } = this.#run;
      const first = withDeadline(world, cluster.network.fetchOf(life));
      const fetch = withResumableFetch(first, {
        headersMs: 10_000,
        idleMs: 20_000,
        retryMs: 200,
      });
      try {
        const headers = await open(fetch);
        const id = `${name} ${life.name}`;
        const params = { name: "count", arguments: {}, _meta: { progressToken: id } };
        const response = await post(fetch, headers, { id, method: "tools/call", params });
        this.#check(name, await response.text());
      } catch (error) {
        // requests without a stream are for their caller to send again
        if (!(error instanceof TypeError)) throw error;
        this.#run.world.count("call broke");
      }
    });
  }

  /** Looks at the events that a client got. */
  #check(name: string, text: string): void {
    const { world } = this.#run;
    let expected = 1;
    // a stream that the server did not record may end in the middle of an event
    for (const [, data = ""] of text.matchAll(/^data: (.+)\n\n/gm)) {
      const { params, result, error } = JSON.parse(data) as Message;
      if (params?.progress !== undefined && params.progress !== expected++)
        world.violate("ORDER", `${name} got ${params.progress} in place of ${expected - 1}`);
      if (result && Number(result.content[0]!.text) !== expected - 1)
        world.violate("LOST", `${name} got ${expected - 1} events of ${result.content[0]!.text}`);
      if (result || error) world.count(result ? "call done" : `call failed: ${error?.message}`);
    }
  }

  /** A call of now comes to its end. */
  async callInCalm(name: string, cluster: Cluster, machine: Machine): Promise<void> {
    const { world } = this.#run;
    const before = world.counts.get("call done") ?? 0;
    await this.call(name, cluster, machine);
    if (world.counts.get("call done") !== before + 1)
      world.violate("CALM", `${name} did not come to its end`);
  }
}

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** Gives up a request without a response, as SDKs do. */
function withDeadline(world: World, fetch: Fetch): Fetch {
  return async (input, init) => {
    const late = new AbortController();
    const cancel = world.after(120_000, () => late.abort(new TypeError("too late")));
    const signal = init?.signal ? AbortSignal.any([init.signal, late.signal]) : late.signal;
    return fetch(input, { ...init, signal }).finally(cancel);
  };
}

async function open(fetch: Fetch): Promise<Record<string, string>> {
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
    authorization: "Bearer alice",
  };
  const clientInfo = { name: "simulated", version: "1.0.0" };
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  const response = await post(fetch, headers, { id: "open", method: "initialize", params });
  await response.text();
  const session = response.headers.get("mcp-session-id");
  if (session === null) throw new TypeError("no session");
  const own = { ...headers, "mcp-session-id": session };
  await (await post(fetch, own, { method: "notifications/initialized" })).text();
  return own;
}

async function post(
  fetch: Fetch,
  headers: Record<string, string>,
  message: object,
): Promise<Response> {
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  const response = await fetch(endpoint, { method: "POST", headers, body });
  if (response.ok) return response;
  await response.body?.cancel();
  throw new TypeError(`HTTP ${response.status}`);
}
