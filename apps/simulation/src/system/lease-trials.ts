import type { Machine } from "../process/machine.ts";
import type { Random } from "../world/random.ts";
import { baseUri, endpoint, principalFor, type Serving } from "./cluster.ts";
import type { Scene } from "./scene.ts";
import { Versions } from "./versions.ts";
import { attempt } from "./workload.ts";

/** What one principal and one process may have open. */
export const maxStreams: { readonly perPrincipal: number; readonly perProcess: number } = {
  perPrincipal: 2,
  perProcess: 3,
};

/** Less than one response with the largest object takes: it is only given when no other one is held. */
export const responseBytes: { readonly perPrincipal: number; readonly perProcess: number } = {
  perPrincipal: 100_000,
  perProcess: 200_000,
};

/** Bytes of a lease besides those of its object, as the profile has them. */
export const spareBytes = 2_000;

const sizes: Readonly<Record<string, number>> = { "a.bin": 5_000, "b.bin": 30_000 };
const largest = "b.bin";

/** Longest time of one download. */
const maxDownloadMs = 60_000;

/**
 * Downloads of two principals with leases: alice has many at a time, bob one. What must hold: a lease gives no more than it
 * allows, a caller without open streams is not told that it has too many, and in the end all permits and bytes are given back.
 */
export class LeaseTrials {
  readonly #scene: Scene;
  /** When bob's last request was surely over. */
  #bobIsIdle = true;

  constructor(scene: Scene) {
    this.#scene = scene;
    const versions = new Versions(scene.world, scene.cluster.files.objects);
    for (const [key, size] of Object.entries(sizes)) versions.put(key, size, scene.random);
  }

  /** Takes ranges with one lease until it is used up. */
  async useLease(name: string, machine: Machine, random: Random): Promise<void> {
    const { run, cluster } = this.#scene;
    const server = random.pick(cluster.running());
    if (!server) return;
    const key = random.pick(Object.keys(sizes));
    const url = await this.#mint(name, server, key, "alice");
    if (url === undefined) return;
    const size = sizes[key]!;
    const most = 4 * size + spareBytes;
    let taken = 0;
    for (let count = 1; count <= 14; count++) {
      const start = random.pick([0, 0, random.int(0, size - 1)]);
      const range = `bytes=${start}-${random.int(start, size - 1)}`;
      const headers = random.chance(0.3) ? {} : { range };
      const isLeft = random.chance(0.3);
      await attempt(run, `${machine.name} takes ${name} (${count})`, machine, async () => {
        const received = await this.#download(machine, url, { subject: "alice", headers, isLeft });
        // the least that a response counts for
        if (received !== undefined) taken += Math.max(512, received);
      });
      if (taken > most)
        run.world.violate("LEASE", `${name} gave ${taken} bytes, and its lease has ${most}`);
    }
  }

  /** Has several downloads at a time. */
  async takeMany(name: string, machine: Machine, random: Random): Promise<void> {
    const server = random.pick(this.#scene.cluster.running());
    if (!server) return;
    await Promise.all(
      [1, 2, 3, 4].map((count) => this.#take(`${name} (${count})`, machine, server, "alice")),
    );
  }

  /** Has one download, after those before were over. */
  async takeOne(name: string, machine: Machine, random: Random): Promise<void> {
    const { world, cluster } = this.#scene;
    const server = random.pick(cluster.running());
    if (!server || !this.#bobIsIdle) return;
    this.#bobIsIdle = false;
    const status = await this.#take(name, machine, server, "bob");
    if (status === 429)
      world.violate("STARVED", `${name}: bob has no other stream, and is told 429`);
    // servers see within this time that a client has left
    await world.sleep(5_000);
    this.#bobIsIdle = true;
  }

  /** Reads a resource into a message. */
  async read(name: string, machine: Machine, random: Random): Promise<void> {
    const { run, cluster } = this.#scene;
    const giveUp = new AbortController();
    run.world.after(random.pick([50, 500, maxDownloadMs]), () =>
      giveUp.abort(new TypeError("left")),
    );
    await attempt(run, `${machine.name} reads ${name}`, machine, async () => {
      const uri = baseUri + random.pick(Object.keys(sizes));
      const fetch = cluster.network.fetchOf(machine.life!);
      // what the network and the limits do to it is for its caller
      await fetch(readRequest(uri), { signal: giveUp.signal })
        .then((response) => response.text())
        .then(
          (text) => run.world.count(text.includes('"result"') ? "read" : "not read"),
          () => run.world.count("read broke"),
        );
    });
  }

  /** Downloads the largest object. Gives the status of the response, if there was one. */
  async #take(
    name: string,
    machine: Machine,
    server: Serving,
    subject: string,
  ): Promise<number | undefined> {
    const { run, world } = this.#scene;
    const url = await this.#mint(name, server, largest, subject);
    if (url === undefined) return undefined;
    let status: number | undefined;
    await attempt(run, `${machine.name} takes ${name}`, machine, async () => {
      await this.#download(machine, url, { subject, onStatus: (given) => (status = given) });
      world.count(`${subject} ${status}`);
    });
    return status;
  }

  async #mint(
    name: string,
    server: Serving,
    key: string,
    subject: string,
  ): Promise<string | undefined> {
    let url: string | undefined;
    await attempt(
      this.#scene.run,
      `${server.life.name} mints ${name}`,
      server.life.machine,
      async () => {
        url = await mint(server, key, subject);
      },
    );
    return url;
  }

  /** Bytes that a client got; `undefined` if it got no response with bytes. */
  async #download(
    machine: Machine,
    url: string,
    { subject, headers = {}, isLeft = false, onStatus }: DownloadOptions,
  ): Promise<number | undefined> {
    const { world, cluster } = this.#scene;
    const life = machine.life!;
    const giveUp = new AbortController();
    const cancel = world.after(maxDownloadMs, () => giveUp.abort(new TypeError("too late")), life);
    let received: number | undefined;
    try {
      const response = await cluster.network.fetchOf(life)(url, {
        headers: { ...headers, authorization: `Bearer ${subject}` },
        signal: giveUp.signal,
      });
      onStatus?.(response.status);
      world.count(`lease ${response.status}`);
      if (response.status === 200 || response.status === 206) received = 0;
      const reader = response.body?.getReader();
      for (let step = await reader?.read(); step && !step.done; step = await reader!.read()) {
        if (received !== undefined) received += step.value.length;
        if (isLeft) {
          await reader!.cancel();
          break;
        }
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      world.count("download broke");
    } finally {
      cancel();
    }
    return received;
  }

  /** Everything is given back: a lease can be used up, and each server has all permits and bytes of responses free. */
  async checkFree(): Promise<void> {
    for (const server of this.#scene.cluster.running()) {
      await this.#checkStreams(server);
      await this.#checkResponses(server);
      await this.#checkLease(server);
    }
  }

  async #checkStreams(server: Serving): Promise<void> {
    const { name } = server.life.machine;
    const open = async (subject: string): Promise<Response> => {
      const url = await mint(server, largest, subject);
      return ask(server, url!, subject);
    };
    const responses = [await open("alice"), await open("alice"), await open("alice")];
    responses.push(await open("bob"));
    const statuses = responses.map(({ status }) => status);
    if (statuses.join(" ") !== "200 200 429 200")
      this.#scene.world.violate(
        "PERMITS",
        `${name} answers ${statuses.join(", ")} to 3 streams of alice and one of bob`,
      );
    for (const { body } of responses) await body?.cancel();
  }

  async #checkResponses(server: Serving): Promise<void> {
    const { name } = server.life.machine;
    const response = await server.handler.fetch(readRequest(baseUri + largest));
    const text = await response.text();
    if (!text.includes('"result"'))
      this.#scene.world.violate(
        "ACCOUNT",
        `${name} holds bytes of responses: ${text.slice(0, 200)}`,
      );
  }

  async #checkLease(server: Serving): Promise<void> {
    const { name } = server.life.machine;
    const url = await mint(server, largest, "alice");
    for (let count = 1; count <= 5; count++) {
      const response = await ask(server, url!, "alice");
      await response.arrayBuffer();
      if ((response.status === 200) !== count <= 4)
        this.#scene.world.violate(
          "LEASE",
          `${name} answers ${response.status} to download ${count} of a lease`,
        );
    }
  }
}

interface DownloadOptions {
  readonly subject: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The client leaves after the first bytes. */
  readonly isLeft?: boolean;
  readonly onStatus?: (status: number) => void;
}

/** A download URL of an object for a principal. */
async function mint(
  { sluice }: Serving,
  key: string,
  subject: string,
): Promise<string | undefined> {
  const { host } = sluice;
  const header = (name: string): string | undefined =>
    name === "authorization" ? `Bearer ${subject}` : undefined;
  const identity = await host.identify({ header });
  const { storage, key: own } = await host.authorize({
    name: host.nameOf(baseUri + key),
    principal: principalFor(subject),
    action: "stream",
  });
  const { etag } = await storage.describe(own);
  return (await host.mint(identity, host.nameOf(baseUri + key), etag))?.url;
}

/** A call of alice that reads a resource. */
function readRequest(uri: string): Request {
  const message = { jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri } };
  return new Request(endpoint, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-11-25",
      authorization: "Bearer alice",
    },
    body: JSON.stringify(message),
  });
}

function ask({ handler }: Serving, url: string, subject: string): Promise<Response> {
  return handler.fetch(new Request(url, { headers: { authorization: `Bearer ${subject}` } }));
}
