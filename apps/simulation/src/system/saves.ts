import type { Machine } from "../process/machine.ts";
import type { Run } from "../run/profile.ts";
import type { Disk } from "../services/disk.ts";
import type { Network } from "../services/network.ts";
import { bucketOrigin } from "../services/object-store.ts";
import type { Random } from "../world/random.ts";
import { baseUri } from "./cluster.ts";
import { createMcpClient } from "./mcp-client.ts";
import { attempt } from "./workload.ts";
import { sha256Of, type Versions } from "./versions.ts";

/** A file that somebody wants. */
interface Wanted {
  readonly key: string;
  readonly path: string;
  isSaved: boolean;
  /** Saves of it that were begun, and those that are still in progress. */
  begun: number;
  active: number;
}

/** Saves of objects to files, and what must hold for them: a file under its final name is one whole version. */
export class Saves {
  readonly #run: Run;
  readonly #network: Network;
  readonly #disk: Disk;
  readonly #versions: Versions;
  readonly #wanted: Wanted[] = [];

  constructor(run: Run, network: Network, disk: Disk, versions: Versions) {
    this.#run = run;
    this.#network = network;
    this.#disk = disk;
    this.#versions = versions;
  }

  /** Wants a file; `save` gets it. */
  want(key: string): Wanted {
    const wanted = {
      key,
      path: `/tmp/${this.#wanted.length}-${key}`,
      isSaved: false,
      begun: 0,
      active: 0,
    };
    this.#wanted.push(wanted);
    return wanted;
  }

  /** Those that were not saved yet. */
  unsaved(): readonly Wanted[] {
    return this.#wanted.filter(({ isSaved }) => !isSaved);
  }

  /** Saves a file, resuming an earlier try. Gives how it ended. */
  async save(name: string, machine: Machine, wanted: Wanted, random: Random): Promise<string> {
    const isFirst = wanted.active === 0;
    const count = ++wanted.begun;
    wanted.active += 1;
    const result = await attempt(this.#run, name, machine, async () => {
      const life = machine.life!;
      const mode = random.pick(["downloadUrl", "downloadUrl", "redirect", "direct"] as const);
      const connections = random.pick([1, 1, 2, 4]);
      const fetch = this.#network.fetchOf(life);
      const client = createMcpClient(life, fetch, "alice");
      const saved = await life.product.saveResource(client, baseUri + wanted.key, wanted.path, {
        prefer: [mode],
        connections,
        resume: true,
        overwrite: true,
        trustedOrigins: [bucketOrigin],
      });
      if (life.isOver) return;
      wanted.isSaved = true;
      if (saved.resumedBytes > 0) this.#run.world.count("save resumed");
      this.#check(name, wanted, saved, isFirst && wanted.begun === count);
    });
    wanted.active -= 1;
    return result;
  }

  /** `isAlone`: no other save replaced the file since. */
  #check(
    name: string,
    { key, path }: Wanted,
    saved: { readonly size: number; readonly sha256: string },
    isAlone: boolean,
  ): void {
    const { world } = this.#run;
    const bytes = this.#disk.find(path)?.bytes;
    const version = bytes && this.#versions.find(key, bytes);
    if (!bytes) return world.violate("SAVE", `${name} succeeded, and there is no file`);
    if (version === undefined)
      world.violate("SAVE", `${name} succeeded with ${bytes.length} bytes that are of no version`);
    if (isAlone && (bytes.length !== saved.size || sha256Of(bytes) !== saved.sha256))
      world.violate("SAVE", `${name} tells another size or digest than the file has`);
    world.tell(`${name}: version ${version ?? "?"}`);
    return undefined;
  }

  /** A file under its final name is whole, also one whose save never said so. */
  checkFiles(): void {
    for (const { key, path, isSaved } of this.#wanted) {
      const bytes = this.#disk.find(path)?.bytes;
      if (isSaved && !bytes) this.#run.world.violate("DURABLE", `${path} was saved, and is gone`);
      if (bytes && this.#versions.find(key, bytes) === undefined)
        this.#run.world.violate("SAVE", `${path} has ${bytes.length} bytes that are of no version`);
    }
  }

  /** Finishes what is unsaved, now that everything works. */
  async finish(machine: Machine, random: Random): Promise<void> {
    const { world } = this.#run;
    for (const wanted of this.unsaved().slice(0, 3)) {
      const name = `${machine.name} saves ${wanted.path} in the end`;
      for (let tries = 0; !wanted.isSaved && tries < 2; tries++)
        await this.save(name, machine, wanted, random);
      if (!wanted.isSaved) world.violate("CALM", `${name}: in vain`);
    }
  }
}
