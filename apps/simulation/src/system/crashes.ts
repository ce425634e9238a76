import type { Machine } from "../process/machine.ts";
import type { Run } from "../run/profile.ts";
import type { Disk } from "../services/disk.ts";
import type { Random } from "../world/random.ts";
import type { Cluster } from "./cluster.ts";

/** Has something happen a number of times within a span, unless it is left out of the run. */
export function plan(
  { world, faults }: Run,
  kind: string,
  {
    times,
    withinMs,
    random,
  }: { readonly times: number; readonly withinMs: number; readonly random: Random },
  happen: (random: Random) => void,
): void {
  for (let count = 1; count <= times; count++) {
    const own = world.random(`${kind} ${count}`);
    world.after(random.next() * withinMs, () => {
      if (faults.planned(kind, String(count))) happen(own);
    });
  }
}

/** Kills a server, and starts it again after a while. */
export function crashServer({ world }: Run, cluster: Cluster, random: Random): void {
  const machine = random.pick(cluster.machines);
  if (!machine.life) return;
  world.tell(`${machine.name} is killed`);
  machine.kill("crash");
  world.after(random.next() * random.pick([500, 10_000]), () => {
    if (!machine.life) cluster.boot(machine);
  });
}

/** Kills a client, or takes the power from the host of all of them; they run again at once. */
export function crashClient(
  { world }: Run,
  machines: readonly Machine[],
  disk: Disk,
  random: Random,
): void {
  if (random.chance(0.5)) {
    const machine = random.pick(machines);
    world.tell(`${machine.name} is killed`);
    machine.boot();
    return;
  }
  world.tell("the host of the clients loses its power");
  for (const machine of machines) machine.kill("power");
  disk.losePower(random);
  for (const machine of machines) machine.boot();
}
