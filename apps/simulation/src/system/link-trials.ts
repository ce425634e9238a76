import type { Machine } from "../process/machine.ts";
import type { Random } from "../world/random.ts";
import { baseUri, principalFor, type Serving } from "./cluster.ts";
import { LinkWatch, type Reach } from "./link-watch.ts";
import { clockSkewMs } from "./mixes.ts";
import type { Rotation } from "./rotation.ts";
import type { Scene } from "./scene.ts";
import { Versions } from "./versions.ts";
import { attempt } from "./workload.ts";

const keys = ["a.bin", "b.bin"];

interface Link {
  readonly url: string;
  readonly id: string;
  readonly expiresAt: number;
  readonly resourceUri: string;
  readonly session?: string;
  readonly kid?: string;
}

/** What links are made with. */
interface LinkOptions {
  /** Their lives, in milliseconds. */
  readonly ttlsMs?: readonly number[];
  readonly uses?: readonly Terms["use"][];
  /** Most redemptions of one. Default: 4. */
  readonly maxRedemptions?: number;
  /** Sessions that they are bound to. Default: none. */
  readonly sessions?: readonly string[];
  /** Of the keys that they are sealed with. With it, none is refused before its time: the state of servers must be kept. */
  readonly rotation?: Rotation;
}

interface Terms {
  readonly use: "once" | "window";
  readonly ttlMs: number;
}

/** Links of alice, which are redeemed some times in some processes, and perhaps withdrawn. A watch has what must hold. */
export class LinkTrials {
  readonly #scene: Scene;
  readonly #watch: LinkWatch;
  readonly #versions: Versions;
  readonly #options: LinkOptions;

  constructor(scene: Scene, options: LinkOptions = {}) {
    const { world, random, cluster } = scene;
    const { rotation } = options;
    const hadKey = rotation && rotation.had.bind(rotation);
    this.#scene = scene;
    this.#options = options;
    this.#watch = new LinkWatch(world, cluster.network, clockSkewMs, hadKey);
    this.#versions = new Versions(world, cluster.files.objects);
    for (const key of keys) this.#versions.put(key, random.pick([1, 5_000, 70_000]), random);
  }

  /** Makes a link, and plans what is done with it. */
  async use(name: string, random: Random): Promise<void> {
    const { cluster, clients, workload } = this.#scene;
    const server = random.pick(cluster.running());
    if (!server) return;
    const { ttlsMs = [1_000, 10_000, 60_000], uses = ["once", "once", "window"] } = this.#options;
    const ttlMs = random.pick(ttlsMs);
    const terms = { ttlMs, use: random.pick(uses) };
    const { sessions = [] } = this.#options;
    const owner = sessions.length > 0 ? random.pick(sessions) : undefined;
    const link = await this.#make(server, name, terms, random, owner);
    if (!link) return;
    const redemptions = random.int(1, this.#options.maxRedemptions ?? 4);
    for (let count = 1; count <= redemptions; count++) {
      const delayMs = random.chance(0.6) ? random.next() * 2_000 : random.next() * (ttlMs + 20_000);
      const machine = random.pick(clients);
      workload.begin(`${machine.name} redeems ${name} (${count})`, delayMs, () =>
        this.#redeem(machine, name, link.url),
      );
    }
    const { session } = link;
    if (session !== undefined && random.chance(0.3))
      workload.begin(`s ends the session of ${name}`, random.next() * ttlMs, () =>
        this.#endSession(session, random),
      );
    if (random.chance(0.4))
      workload.begin(`s revokes ${name}`, random.next() * ttlMs, () => this.#revoke(link, random));
  }

  async #make(
    server: Serving,
    name: string,
    terms: Terms,
    random: Random,
    session?: string,
  ): Promise<Link | undefined> {
    const { run } = this.#scene;
    const uri = baseUri + random.pick(keys);
    const { rotation } = this.#options;
    const kidBefore = rotation?.current(server.life);
    const caller = {
      ...(session !== undefined && { sessionId: session }),
      header: (field: string) => (field === "authorization" ? "Bearer alice" : undefined),
    };
    const { machine } = server.life;
    const what = `${machine.name} makes ${name} (${terms.use}, ${terms.ttlMs} ms)`;
    let link: Link | undefined;
    await attempt(run, what, machine, async () => {
      const made = await server.sluice.link(uri, { ...terms, caller });
      // the key may have changed since
      const kid = rotation?.current(server.life);
      const isSure = kid !== undefined && kid === kidBefore;
      link = { ...made, ...(session !== undefined && { session }), ...(isSure && { kid }) };
      this.#watch.made({ ...link, ...terms, madeAt: run.world.now });
    });
    return link;
  }

  async #redeem(machine: Machine, name: string, url: string): Promise<void> {
    const { run, cluster } = this.#scene;
    await attempt(run, `${machine.name} redeems ${name}`, machine, async () => {
      const life = machine.life!;
      try {
        const giveUp = new AbortController();
        run.world.after(120_000, () => giveUp.abort(new TypeError("too late")), life);
        const { signal } = giveUp;
        const response = await cluster.network.fetchOf(life)(url, { redirect: "manual", signal });
        run.world.count(`link ${response.status}`);
        const bytes = Buffer.from(await response.arrayBuffer());
        const length = Number(response.headers.get("content-length"));
        const isWhole = keys.some((key) => this.#versions.find(key, bytes) !== undefined);
        // what a network did to it is for its client to notice
        if (response.status === 200 && run.faults.isCalm && bytes.length === length && !isWhole)
          run.world.violate("BYTES", `${name} gave ${bytes.length} bytes that are of no version`);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        run.world.count("link broke");
      }
    });
  }

  async #revoke(link: Link, random: Random): Promise<void> {
    const server = random.pick(this.#scene.cluster.running());
    if (!server) return;
    const token = link.url.slice(link.url.lastIndexOf("/") + 1);
    const selector = random.pick([
      { token },
      { grant: link.id },
      { principal: principalFor("alice") },
      { resource: link.resourceUri },
    ] as const);
    const [what] = Object.keys(selector);
    const reach: Reach =
      "principal" in selector
        ? { all: true }
        : "resource" in selector
          ? { resourceUri: link.resourceUri }
          : { token };
    await this.#withdraw(server, `by ${what}`, reach, () => server.sluice.revoke(selector));
  }

  async #endSession(session: string, random: Random): Promise<void> {
    const server = random.pick(this.#scene.cluster.running());
    if (!server) return;
    await this.#withdraw(server, "by session", { session }, () =>
      server.sluice.endSession(session),
    );
  }

  /** Withdraws links at a server; once that succeeded, those that were made before must not work. */
  async #withdraw(
    { life: { machine } }: Serving,
    how: string,
    reach: Reach,
    work: () => Promise<void>,
  ): Promise<void> {
    this.#watch.doubt(reach);
    const tokens = this.#watch.reached(reach);
    const result = await attempt(this.#scene.run, `${machine.name} revokes ${how}`, machine, work);
    if (result === "ok") this.#watch.revoked(tokens);
  }

  /** A link of now works, at every server. */
  async useFresh(): Promise<void> {
    const { run, cluster } = this.#scene;
    const random = run.world.random("fresh link");
    const terms = { use: "window", ttlMs: 60_000 } as const;
    for (const server of cluster.running()) {
      const link = await this.#make(server, "a fresh link", terms, random);
      if (!link) run.world.violate("CALM", "no link can be made");
      else {
        const fetch = cluster.network.fetchOf(server.life);
        const response = await fetch(link.url, { redirect: "manual" });
        await response.body?.cancel();
        if (![200, 302, 303, 307].includes(response.status))
          run.world.violate("CALM", `a fresh link is ${response.status}`);
      }
    }
  }
}
