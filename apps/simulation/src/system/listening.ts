import type { Life, Machine } from "../process/machine.ts";
import type { Run } from "../run/profile.ts";
import type { Random } from "../world/random.ts";
import { baseUri, type Cluster, endpoint } from "./cluster.ts";
import type { Versions } from "./versions.ts";

/** One client with one stream after the other. */
interface Listener {
  readonly name: string;
  readonly keys: readonly string[];
  /** Count of changes that it knows of, for each key and for the list. */
  readonly known: Map<string, number>;
  /** Its stream is acknowledged and open. */
  isLive: boolean;
}

interface Message {
  readonly method?: string;
  readonly error?: { readonly message: string };
  readonly params?: {
    readonly uri?: string;
    readonly notifications?: { readonly resourceSubscriptions?: readonly string[] };
    readonly _meta?: Readonly<Record<string, unknown>>;
  };
}

const revision = "2026-07-28";
const list = "the list";

/** A server tells within this time: it may look at its storage only every 30 s, and after as long a pause. */
const boundMs = 65_000;

/**
 * Clients that listen for changes of objects, and open another stream when theirs ends. What must hold: each learns of
 * each change in bounded time, or its stream ends.
 */
export class Listening {
  readonly #run: Run;
  readonly #cluster: Cluster;
  readonly #versions: Versions;
  readonly #listeners: Listener[] = [];
  readonly #end = new AbortController();
  /** Changes of each object, and of the list. */
  readonly #changes: Map<string, number> = new Map();

  constructor(run: Run, cluster: Cluster, versions: Versions) {
    this.#run = run;
    this.#cluster = cluster;
    this.#versions = versions;
  }

  /** Changes an object, which may be new. */
  change(key: string, random: Random): void {
    if (!this.#changes.has(key)) this.#count(list);
    this.#versions.put(key, random.int(1, 100), random);
    this.#count(key);
  }

  #count(what: string): void {
    this.#changes.set(what, this.#latest(what) + 1);
  }

  #latest(what: string): number {
    return this.#changes.get(what) ?? 0;
  }

  /** Has a client listen until {@link end}. */
  begin(machine: Machine, name: string, keys: readonly string[], random: Random): void {
    const listener = { name, keys, known: new Map<string, number>(), isLive: false };
    this.#listeners.push(listener);
    void this.#keepListening(machine, listener, random);
  }

  async #keepListening(machine: Machine, listener: Listener, random: Random): Promise<void> {
    const { world } = this.#run;
    const { signal } = this.#end;
    for (let id = 1; !signal.aborted; id++) {
      const { life } = machine;
      try {
        if (life) await life.untilEnd(this.#listen(life, listener, `${listener.name} ${id}`));
      } catch (error) {
        world.log(`${listener.name}: ${String(error).slice(0, 200)}`);
      }
      listener.isLive = false;
      world.count("stream ended");
      await world.sleep(random.next() * 2_000);
    }
  }

  async #listen(life: Life, listener: Listener, id: string): Promise<void> {
    const { world } = this.#run;
    const resourceSubscriptions = listener.keys.map((key) => baseUri + key);
    const late = new AbortController();
    const cancel = world.after(60_000, () => late.abort(new TypeError("too late")), life);
    const response = await this.#cluster.network.fetchOf(life)(endpoint, {
      method: "POST",
      signal: AbortSignal.any([this.#end.signal, late.signal]),
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        authorization: "Bearer alice",
        "mcp-protocol-version": revision,
        "mcp-method": "subscriptions/listen",
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id,
        method: "subscriptions/listen",
        params: {
          notifications: { resourceSubscriptions, resourcesListChanged: true },
          _meta: {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": { name: "simulated", version: "1.0.0" },
            "io.modelcontextprotocol/clientCapabilities": {},
          },
        },
      }),
    });
    cancel();
    const leaves = this.#run.faults.strike("client leaves", listener.name);
    if (leaves)
      world.after(leaves.int(0, 10_000), () => late.abort(new TypeError("it leaves")), life);
    world.count(`listen ${response.status}`);
    if (!response.ok || !response.body) return response.body?.cancel();
    for await (const message of messagesIn(response.body)) this.#take(listener, id, message);
    return undefined;
  }

  #take(listener: Listener, id: string, { method, params, error }: Message): void {
    const { world } = this.#run;
    if (error) return world.count(`listen failed: ${error.message}`);
    const stamp = params?._meta?.["io.modelcontextprotocol/subscriptionId"];
    if (stamp !== id) world.violate("STAMP", `${id} got a message of ${String(stamp)}`);
    world.count(String(method));
    if (method === "notifications/subscriptions/acknowledged") {
      const uris = params?.notifications?.resourceSubscriptions ?? [];
      // those that a server could not describe are not followed: the client would ask again
      listener.isLive = uris.length === listener.keys.length;
      for (const what of [...listener.keys, list]) listener.known.set(what, this.#latest(what));
    } else if (method === "notifications/resources/list_changed")
      listener.known.set(list, this.#latest(list));
    else if (method === "notifications/resources/updated") {
      const key = params!.uri!.slice(baseUri.length);
      if (!listener.keys.includes(key))
        world.violate("FOREIGN", `${id} is told of ${key}, which it does not follow`);
      listener.known.set(key, this.#latest(key));
    }
    return undefined;
  }

  /** Everything works: all clients have a stream, and know of every change. */
  async checkAll(when: string): Promise<void> {
    const { world } = this.#run;
    await world.sleep(boundMs);
    for (const { name, keys, known, isLive } of this.#listeners) {
      if (!isLive) world.violate("CALM", `${name} has no stream ${when}`);
      const whats = this.#cluster.files.canWatch ? [...keys, list] : keys;
      for (const what of whats)
        if (known.get(what) !== this.#latest(what))
          world.violate(
            "MISSED",
            `${name} knows of ${known.get(what)} changes of ${what} ${when}, and there were ${this.#latest(what)}`,
          );
    }
  }

  /** All clients leave. */
  end(): void {
    this.#end.abort(new TypeError("the client leaves"));
  }
}

/** Messages of a stream of events, as they come. */
async function* messagesIn(body: ReadableStream<Uint8Array>): AsyncGenerator<Message> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const [, data] = /^data: (.*)$/m.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      if (data !== undefined) yield JSON.parse(data) as Message;
    }
  }
}
