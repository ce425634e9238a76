import type { Profile, Run } from "../run/profile.ts";
import { baseUri, Cluster, principalFor, type Serving } from "../system/cluster.ts";
import { crashServer, plan } from "../system/crashes.ts";
import { LinkWatch } from "../system/link-watch.ts";
import { drawSlowness, mixOf, usualFaults } from "../system/mixes.ts";
import { Versions } from "../system/versions.ts";
import { attempt, Workload } from "../system/workload.ts";
import type { Random } from "../world/random.ts";

/** How far the clocks of two processes may differ. */
const clockSkewMs = 5_000;

/** Links that are redeemed at several servers, whose clocks differ, over a Redis that fails and forgets. */
export const links: Profile = {
  name: "links",
  summary:
    "links of one use and of many, revoked, in processes whose clocks differ, over a Redis that loses keys",
  edits: [],
  mutants: [
    {
      name: "a claim is kept only as long as the link lives by one clock",
      runs: 150,
      edits: [
        {
          file: "state-redis/src/lib/redis-state-store.ts",
          from: "        expiresAt + 2 * clockSkewMs + graceMs,\n",
          to: "        expiresAt,\n",
        },
      ],
    },
    {
      name: "a claim is kept for five seconds",
      runs: 60,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "redis.call('PEXPIRE', KEYS[1], whole(forgetAt - now))",
          to: "redis.call('PEXPIRE', KEYS[1], 5000)",
        },
      ],
    },
    {
      name: "a Redis that forgot claims is asked at once",
      runs: 150,
      edits: [
        {
          file: "state-redis/src/lib/redis-state-store.ts",
          from: 'const margin = durable ? "" : clockSkewMs + timeoutMs + 1_000;',
          to: 'const margin = "";',
        },
      ],
    },
    {
      name: "one use is not counted",
      runs: 30,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "if use == 'window' then return 'granted' end",
          to: "if use ~= 'lease' then return 'granted' end",
        },
      ],
    },
    {
      name: "a revocation of one link is not looked at",
      runs: 60,
      edits: [
        {
          file: "state-redis/src/lib/state-scripts.ts",
          from: "for n = 2, 4 do",
          to: "for n = 3, 4 do",
        },
      ],
    },
    {
      name: "a revocation does not reach processes whose clock is ahead",
      runs: 150,
      edits: [
        {
          file: "server/src/urls/revoke.ts",
          from: 'now: shared === false && !("id" in selector) ? now : now + clockSkewMs,',
          to: "now,",
        },
      ],
    },
    {
      name: "the permit of a stream is not given back when a link is refused",
      runs: 60,
      edits: [
        {
          file: "server/src/urls/redeem.ts",
          from: "      release();\n      // a provider gives its URL",
          to: "      // a provider gives its URL",
        },
      ],
    },
  ],
  begin(run) {
    const { world } = run;
    const random = world.random("plan");
    run.faults.use(mixOf(random, { ...usualFaults, ...redisFaults }));
    const skewMs = (): number => random.int(-clockSkewMs / 2, clockSkewMs / 2);
    const cluster = new Cluster(run, {
      servers: 2,
      redis: random.chance(0.4) ? "durable" : "forgetful",
      skewsMs: [skewMs(), skewMs()],
      sluice: { links: { tokens: random.pick(["stored", "sealed"]) } },
    });
    const { machines } = cluster.createClients(2);
    drawSlowness(random, cluster.network, cluster.files);
    const versions = new Versions(world, cluster.files.objects);
    for (const key of keys) versions.put(key, random.pick([1, 5_000, 70_000]), random);
    const watch = new LinkWatch(world, cluster.network, clockSkewMs);
    const workload = new Workload(run);
    const scene = { run, cluster, workload, watch, versions };
    for (let count = 1; count <= 6; count++)
      workload.begin(`s makes link ${count}`, random.next() * 60_000, () =>
        useLink(scene, `link ${count}`, world.random(`link ${count}`)),
      );
    const within = { withinMs: 120_000, random };
    plan(run, "redis restarts", { ...within, times: random.int(0, 3) }, (own) => {
      cluster.redis!.stop();
      world.after(own.next() * 4_000, () => cluster.redis!.start(own));
    });
    plan(run, "server crashes", { ...within, times: random.int(0, 3) }, (own) =>
      crashServer(run, cluster, own),
    );
    return {
      isOver: () => workload.isOver(),
      async calm() {
        cluster.redis!.start(random);
        cluster.heal();
        await world.sleep(60_000);
        await useFreshLink(scene);
      },
      idle: () => cluster.checkIdle(machines),
    };

    /** Makes a link, redeems it at some times in some processes, and perhaps withdraws it. */
    async function useLink({ workload: more }: Scene, name: string, own: Random): Promise<void> {
      const server = own.pick(cluster.running());
      if (!server) return;
      const ttlMs = own.pick([1_000, 10_000, 60_000]);
      const link = await makeLink(
        scene,
        server,
        { name, ttlMs, use: own.pick(["once", "once", "window"]) },
        own,
      );
      if (!link) return;
      const redemptions = own.int(1, 4);
      for (let count = 1; count <= redemptions; count++) {
        const delayMs = own.chance(0.6) ? own.next() * 2_000 : own.next() * (ttlMs + 20_000);
        const machine = own.pick(machines);
        more.begin(`${machine.name} redeems ${name} (${count})`, delayMs, () =>
          redeem(scene, machine, name, link.url),
        );
      }
      if (own.chance(0.4))
        more.begin(`s revokes ${name}`, own.next() * ttlMs, () => revoke(scene, link, own));
    }

    async function revoke({ run: { world: time } }: Scene, link: Link, own: Random): Promise<void> {
      const server = own.pick(cluster.running());
      if (!server) return;
      const token = link.url.slice(link.url.lastIndexOf("/") + 1);
      const selector = own.pick([
        { token },
        { grant: link.id },
        { principal: principalFor("alice") },
        { resource: link.resourceUri },
      ] as const);
      const [what] = Object.keys(selector);
      const name = `${server.life.machine.name} revokes by ${what}`;
      const result = await attempt(run, name, server.life.machine, () =>
        server.sluice.revoke(selector),
      );
      if (result === "ok")
        watch.revoked(
          what === "token" || what === "grant" ? [token] : watch.tokensFor(what!, link),
          time.now,
        );
    }
  },
};

const keys = ["a.bin", "b.bin"];

const redisFaults = {
  "redis request lost": 0.1,
  "redis reply lost": 0.1,
  "slow redis": 0.1,
};

interface Scene {
  readonly run: Run;
  readonly cluster: Cluster;
  readonly workload: Workload;
  readonly watch: LinkWatch;
  readonly versions: Versions;
}

interface Link {
  readonly url: string;
  readonly id: string;
  readonly expiresAt: number;
  readonly resourceUri: string;
}

async function makeLink(
  { run, watch }: Scene,
  server: Serving,
  {
    name,
    ...terms
  }: { readonly name: string; readonly use: "once" | "window"; readonly ttlMs: number },
  random: Random,
): Promise<Link | undefined> {
  const uri = baseUri + random.pick(keys);
  const caller = {
    header: (field: string) => (field === "authorization" ? "Bearer alice" : undefined),
  };
  let link: Link | undefined;
  await attempt(
    run,
    `${server.life.machine.name} makes ${name} (${terms.use}, ${terms.ttlMs} ms)`,
    server.life.machine,
    async () => {
      link = await server.sluice.link(uri, { ...terms, caller });
      watch.made({ ...link, ...terms, madeAt: run.world.now });
    },
  );
  return link;
}

async function redeem(
  { run, cluster, versions }: Scene,
  machine: Serving["life"]["machine"],
  name: string,
  url: string,
): Promise<void> {
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
      const isWhole = keys.some((key) => versions.find(key, bytes) !== undefined);
      // what a network did to it is for its client to notice
      if (response.status === 200 && run.faults.isCalm && bytes.length === length && !isWhole)
        run.world.violate("BYTES", `${name} gave ${bytes.length} bytes that are of no version`);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      run.world.count("link broke");
    }
  });
}

/** A link of now works, at every server. */
async function useFreshLink(scene: Scene): Promise<void> {
  const { run, cluster } = scene;
  const random = run.world.random("fresh link");
  for (const server of cluster.running()) {
    const link = await makeLink(
      scene,
      server,
      { name: "a fresh link", use: "window", ttlMs: 60_000 },
      random,
    );
    if (!link) run.world.violate("CALM", "no link can be made");
    else {
      const life = server.life;
      const response = await cluster.network.fetchOf(life)(link.url, { redirect: "manual" });
      await response.body?.cancel();
      if (![200, 302, 303, 307].includes(response.status))
        run.world.violate("CALM", `a fresh link is ${response.status}`);
    }
  }
}
