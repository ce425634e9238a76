import type { Machine } from "../process/machine.ts";
import type { Run, Scenario } from "../run/profile.ts";
import type { Disk } from "../services/disk.ts";
import type { FaultRates } from "../world/faults.ts";
import type { Random } from "../world/random.ts";
import type { World } from "../world/world.ts";
import { Cluster, type ClusterOptions } from "./cluster.ts";
import { drawSlowness, mixOf } from "./mixes.ts";
import { Workload } from "./workload.ts";

/** What a profile begins with. */
export interface SceneOptions {
  /** Greatest rate of each fault that may happen. */
  readonly faults: FaultRates;
  /** The storage that the workload needs; how slow it is is drawn. Default: files. */
  readonly storage?: "files" | "inbox";
  /** Draws the servers. */
  readonly cluster: (random: Random) => ClusterOptions;
}

/** The beginning of every profile: a mix of faults, servers, two clients on one host, how slow they are, and a workload. */
export class Scene {
  readonly run: Run;
  readonly world: World;
  /** Draws what is planned before the workload begins. */
  readonly random: Random;
  readonly cluster: Cluster;
  readonly disk: Disk;
  /** Machines of the clients. */
  readonly clients: readonly Machine[];
  readonly workload: Workload;

  constructor(run: Run, { faults, storage = "files", cluster }: SceneOptions) {
    const random = run.world.random("plan");
    run.faults.use(mixOf(random, faults));
    this.run = run;
    this.world = run.world;
    this.random = random;
    this.cluster = new Cluster(run, cluster(random));
    const { disk, machines } = this.cluster.createClients(2);
    this.disk = disk;
    this.clients = machines;
    drawSlowness(random, this.cluster.network, this.cluster[storage]);
    this.workload = new Workload(run);
  }

  /** Has something happen some times within a span, each of which can be left out of the run. */
  plan(
    kind: string,
    { times: [min, max], withinMs }: Times,
    happen: (random: Random) => void,
  ): void {
    const { world, run, random } = this;
    const times = random.int(min, max);
    for (let count = 1; count <= times; count++) {
      const own = world.random(`${kind} ${count}`);
      world.after(random.next() * withinMs, () => {
        if (run.faults.planned(kind, String(count))) happen(own);
      });
    }
  }

  /** Kills servers, and starts each again after a while. */
  planServerCrashes(times: Times): void {
    const { world, cluster } = this;
    this.plan("server crashes", times, (random) => {
      const machine = random.pick(cluster.machines);
      if (!machine.life) return;
      world.tell(`${machine.name} is killed`);
      machine.kill("crash");
      world.after(random.next() * random.pick([500, 10_000]), () => {
        if (!machine.life) cluster.boot(machine);
      });
    });
  }

  /** Kills clients; they run again at once. */
  planClientCrashes(times: Times): void {
    this.plan("client crashes", times, (random) => this.#killClient(random));
  }

  /** Kills clients, or takes the power from the host of all of them; they run again at once. */
  planPowerLosses(times: Times, onHappened: () => void): void {
    const { world, clients, disk } = this;
    this.plan("client crashes", times, (random) => {
      if (random.chance(0.5)) this.#killClient(random);
      else {
        world.tell("the host of the clients loses its power");
        for (const machine of clients) machine.kill("power");
        disk.losePower(random);
        for (const machine of clients) machine.boot();
      }
      onHappened();
    });
  }

  #killClient(random: Random): void {
    const machine = random.pick(this.clients);
    this.world.tell(`${machine.name} is killed`);
    machine.boot();
  }

  /** The phases of the run: all that was cut off or killed is there again before `calm`, and nothing may be open after `idle`. */
  phases({ calm, idle }: Pick<Scenario, "calm"> & Partial<Scenario>): Scenario {
    const { cluster, workload, clients } = this;
    return {
      isOver: () => workload.isOver(),
      calm() {
        cluster.heal();
        return calm();
      },
      idle() {
        idle?.();
        cluster.checkIdle(clients);
      },
    };
  }
}

/** How often something happens, both ends included, and from the beginning until when. */
export interface Times {
  readonly times: readonly [min: number, max: number];
  readonly withinMs: number;
}
