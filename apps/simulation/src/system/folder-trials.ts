import type { StorageBackend, StepWriter, WritableBackend } from "@sluice/storage";
import type { Life, Machine } from "../process/machine.ts";
import type { Run } from "../run/profile.ts";
import type { Disk } from "../services/disk.ts";
import type { Random } from "../world/random.ts";
import { ForeignFiles } from "./foreign-files.ts";
import { History } from "./history.ts";
import { attempt } from "./workload.ts";
import { sha256Of } from "./versions.ts";

/** The folder that all processes of the host serve. */
const folder = "/tmp/files";

type FolderBackend = WritableBackend & Required<Pick<StorageBackend, "writeInSteps">>;

/** An object that is written in steps. */
interface Steps {
  readonly key: string;
  readonly bytes: Buffer;
  id?: string;
  /** Bytes that a step was told to be kept. */
  keptBytes: number;
  /** A commit was begun, and perhaps done. */
  isCommitted: boolean;
}

/** Codes that only a fault of the product gives: disks fail, and objects change. */
const faultCodes: ReadonlySet<string> = new Set(["protocol", "corrupt", "invalid_argument"]);

const sizes = [0, 1, 3_000, 30_000, 60_000] as const;

/**
 * Reads, writes, steps, removals and lists of objects of a folder, by processes that share its disk. What must hold: a
 * clean end has the bytes of one version that was there, and what was confirmed outlasts a power loss.
 */
export class FolderTrials {
  readonly #run: Run;
  readonly #disk: Disk;
  /** Files that no process of the product changes. */
  readonly foreign: ForeignFiles;
  readonly #histories: Map<string, History> = new Map();
  readonly #backends: WeakMap<Life, FolderBackend> = new WeakMap();
  readonly #steps: Steps[] = [];
  /** Digests of the contents that etags stood for. */
  readonly #etags: Map<string, string> = new Map();

  constructor(run: Run, disk: Disk, keys: readonly string[]) {
    this.#run = run;
    this.#disk = disk;
    this.foreign = new ForeignFiles(run.world, disk, folder);
    disk.link(folder, disk.create(0o755, true), "mkdir");
    disk.sync(disk.at("/tmp", "sync"));
    for (const key of keys) this.#histories.set(key, new History());
  }

  get keys(): readonly string[] {
    return [...this.#histories.keys()];
  }

  #backendOf(life: Life): FolderBackend {
    let backend = this.#backends.get(life);
    if (!backend) {
      backend = life.product.createFsBackend({ root: folder, writable: true }) as FolderBackend;
      this.#backends.set(life, backend);
    }
    return backend;
  }

  #historyOf(key: string): History {
    let history = this.#histories.get(key);
    if (!history) this.#histories.set(key, (history = new History()));
    return history;
  }

  /** Writes an object whole, or gives it up on the way. */
  async write(name: string, machine: Machine, key: string, random: Random): Promise<void> {
    const { world } = this.#run;
    const bytes = random.fillBytes(Buffer.alloc(random.pick(sizes)));
    const ifAbsent = random.chance(0.2);
    const ending = random.pick(["commit", "commit", "commit", "abort", "signal"] as const);
    const begunAt = world.now;
    const history = this.#historyOf(key);
    const finish = history.begin(bytes, begunAt);
    const result = await attempt(this.#run, name, machine, async () => {
      const { product } = machine.life!;
      const controller = new AbortController();
      const { signal } = controller;
      const hasSize = random.chance(0.5);
      const options = { ifAbsent, signal, ...(hasSize && { size: bytes.length }) };
      const writer = await this.#backendOf(machine.life!).write(key, options);
      for (const chunk of chunksOf(bytes, random)) {
        await writer.write(chunk);
        if (random.chance(0.3)) await world.sleep(random.next() * 500, machine.life);
      }
      if (ending === "abort") return writer.abort();
      if (ending === "signal")
        controller.abort(new product.SluiceError("interrupted", "the writer is given up"));
      const info = await writer.commit();
      if (info.size !== bytes.length)
        world.violate("WRITE", `${name}: committed ${info.size} of ${bytes.length} bytes`);
      this.#learn(key, info.etag, bytes, name);
    });
    const isGivenUp = ending !== "commit" && result !== "killed";
    const isRefused = isGivenUp || result === "precondition_failed";
    if (result === "ok" && ending === "commit" && ifAbsent)
      if (!history.possible(begunAt, world.now).includes(undefined))
        world.violate("ABSENT", `${name}: it was made only if absent, and was there`);
    finish(world.now, isRefused ? "refused" : result === "ok" ? "done" : "uncertain");
    this.#checkCode(name, result);
  }

  async remove(name: string, machine: Machine, key: string): Promise<void> {
    const { world } = this.#run;
    const finish = this.#historyOf(key).begin(undefined, world.now);
    const result = await attempt(this.#run, name, machine, () =>
      this.#backendOf(machine.life!).remove(key),
    );
    finish(world.now, result === "ok" ? "done" : "uncertain");
    this.#checkCode(name, result);
  }

  /** Writes an object in steps, some of which never end. */
  async writeInSteps(name: string, machines: readonly Machine[], random: Random): Promise<void> {
    const key = random.pick(["", "steps/"]) + `${name.replaceAll(" ", "-")}.bin`;
    const bytes = random.fillBytes(Buffer.alloc(random.pick(sizes)));
    const steps: Steps = { key, bytes, keptBytes: 0, isCommitted: false };
    this.#steps.push(steps);
    const finish = this.#historyOf(key).begin(bytes, this.#run.world.now);
    let isDone = false;
    for (let tries = 1; tries <= 6 && !isDone; tries++) {
      const count = random.chance(0.2) && steps.id !== undefined ? 2 : 1;
      const results = await Promise.all(
        Array.from({ length: count }, (_, at) =>
          this.#step(`${name} (${tries}.${at})`, steps, random.pick(machines), random),
        ),
      );
      isDone = results.includes("committed");
      if (results.includes("not_found") && steps.isCommitted) break;
      await this.#run.world.sleep(random.next() * 2_000);
    }
    finish(this.#run.world.now, isDone ? "done" : "uncertain");
  }

  async #step(name: string, steps: Steps, machine: Machine, random: Random): Promise<string> {
    const { world } = this.#run;
    const { key, bytes, keptBytes } = steps;
    const controller = new AbortController();
    let isDone = false;
    const wasCommitted = steps.isCommitted;
    const result = await attempt(this.#run, name, machine, async () => {
      const { signal } = controller;
      const { id } = steps;
      const backend = this.#backendOf(machine.life!);
      const writer = await backend.writeInSteps(key, { signal, ...(id !== undefined && { id }) });
      steps.id ??= writer.id;
      if (writer.offset < keptBytes)
        world.violate(
          "KEPT",
          `${name}: ${keptBytes} bytes were kept, and ${writer.offset} are there`,
        );
      for (const chunk of chunksOf(bytes.subarray(writer.offset), random)) {
        await writer.write(chunk);
        if (random.chance(0.2)) await world.sleep(random.next() * 300, machine.life);
        if (random.chance(0.2)) return this.#endStep(writer, steps, controller, random);
      }
      steps.isCommitted = true;
      await writer.commit();
      isDone = true;
    });
    this.#checkCode(name, result);
    // whoever overtakes a writer may have committed it
    if (result === "not_found" && !wasCommitted && !steps.isCommitted)
      world.violate("KEPT", `${name}: what was kept is gone`);
    return isDone ? "committed" : result;
  }

  async #endStep(
    writer: StepWriter,
    steps: Steps,
    controller: AbortController,
    random: Random,
  ): Promise<void> {
    // a step that is left open ends with its process, or when its caller aborts
    if (random.chance(0.3)) return controller.abort(new Error("left"));
    const { offset } = await writer.suspend();
    steps.keptBytes = Math.max(steps.keptBytes, offset);
  }

  /** Reads an object some times in a row: a process may have it in memory by then. */
  async readSome(name: string, machine: Machine, key: string, random: Random): Promise<void> {
    const times = random.int(1, 4);
    for (let count = 1; count <= times; count++) {
      await this.read(`${name} (${count})`, machine, key, random);
      await this.#run.world.sleep(random.next() * 600);
    }
  }

  /** Reads an object or a range of it, perhaps not to its end. */
  async read(name: string, machine: Machine, key: string, random: Random): Promise<void> {
    const { world } = this.#run;
    const result = await attempt(this.#run, name, machine, async () => {
      const { life } = machine;
      const backend = this.#backendOf(life!);
      const described = random.chance(0.4) ? await backend.describe(key) : undefined;
      const range = random.chance(0.3) ? { start: random.int(0, 20_000) } : undefined;
      const ifMatch = described?.etag;
      const from = world.now;
      const opened = await backend.open(key, {
        ...(range && { range }),
        ...(ifMatch !== undefined && { ifMatch }),
      });
      const to = world.now;
      const { info } = opened;
      if (ifMatch !== undefined && info.etag !== ifMatch)
        world.violate("ETAG", `${name}: opened another version than the one it asked for`);
      const bytes = await this.#take(opened.body, random, life!);
      if (!bytes) return world.count("read left");
      const { start, end } = opened.range ?? { start: 0, end: info.size! };
      if (bytes.length !== end - start)
        world.violate("BYTES", `${name}: ${bytes.length} bytes of ${start} to ${end}`);
      const isOf = (content: Buffer | undefined): boolean =>
        content !== undefined &&
        content.length === info.size &&
        content.subarray(start, end).equals(bytes);
      const versions = this.foreign.has(key)
        ? this.foreign.statesOf(key, from)
        : this.#historyOf(key).possible(from, to);
      // two changes within a tick of the clock cannot be told apart, and such a file has no etag
      const isKnown = !this.foreign.has(key) || info.etag !== undefined;
      if (isKnown && !versions.some(isOf))
        world.violate("BYTES", `${name}: ${bytes.length} bytes that are of no version`);
      if (!opened.range) this.#learn(key, info.etag, bytes, name);
      return undefined;
    });
    this.#checkCode(name, result);
  }

  /** All bytes of a body; `undefined` if it was left on the way. */
  async #take(
    body: ReadableStream<Uint8Array>,
    random: Random,
    life: Life,
  ): Promise<Buffer | undefined> {
    const reader = body.getReader();
    const chunks: Uint8Array[] = [];
    const isLeft = random.chance(0.2);
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      chunks.push(next.value);
      if (random.chance(0.3)) await this.#run.world.sleep(random.next() * 400, life);
      if (isLeft && random.chance(0.5)) {
        await reader.cancel();
        return undefined;
      }
    }
    return Buffer.concat(chunks);
  }

  /** Lists all objects, in pages of one process or of several. */
  async list(name: string, machines: readonly Machine[], random: Random): Promise<void> {
    const { world } = this.#run;
    const from = world.now;
    const machine = random.pick(machines);
    const isOfSeveral = random.chance(0.5);
    const found = new Set<string>();
    const result = await attempt(this.#run, name, machine, async () => {
      const limit = random.int(1, 4);
      let cursor: string | undefined;
      do {
        const { life } = isOfSeveral ? random.pick(machines) : machine;
        const backend = this.#backendOf(life!);
        const options = { limit, ...(cursor !== undefined && { cursor }) };
        const page = await life!.untilEnd(backend.list(options));
        for (const { key, size } of page.objects) {
          found.add(key);
          const sizesOf = this.foreign.has(key)
            ? undefined
            : this.#historyOf(key).possible(from, world.now);
          if (sizesOf && !sizesOf.some((content) => content?.length === size))
            world.violate("LIST", `${name}: ${key} with ${size} bytes, which it never had`);
        }
        ({ cursor } = page);
        if (random.chance(0.5)) await world.sleep(random.next() * 1_000, machine.life);
      } while (cursor !== undefined);
      for (const [key, history] of this.#histories)
        if (!found.has(key) && !history.possible(from, world.now).includes(undefined))
          world.violate("LIST", `${name}: ${key} is missing`);
    });
    this.#checkCode(name, result);
  }

  #learn(key: string, etag: string | undefined, bytes: Buffer, name: string): void {
    if (etag === undefined) return;
    const digest = sha256Of(bytes);
    const known = this.#etags.get(`${key} ${etag}`);
    if (known !== undefined && known !== digest)
      this.#run.world.violate("ETAG", `${name}: an etag stands for two contents`);
    this.#etags.set(`${key} ${etag}`, digest);
  }

  #checkCode(name: string, code: string): void {
    if (faultCodes.has(code)) this.#run.world.violate("CODE", `${name}: ${code}`);
  }

  /** Finishes what is written in steps, and looks at every object and at the list of them. */
  async finish(machines: readonly Machine[], random: Random): Promise<void> {
    const { world } = this.#run;
    const [machine] = machines;
    for (const steps of this.#steps) {
      if (steps.isCommitted || steps.id === undefined) continue;
      const finish = this.#historyOf(steps.key).begin(steps.bytes, world.now);
      const name = `${machine!.name} commits ${steps.key} in the end`;
      const result = await attempt(this.#run, name, machine!, async () => {
        const backend = this.#backendOf(machine!.life!);
        const writer = await backend.writeInSteps(steps.key, { id: steps.id! });
        await writer.write(new Uint8Array(steps.bytes.subarray(writer.offset)));
        await writer.commit();
      });
      if (result !== "ok") world.violate("CALM", `${name}: ${result}`);
      finish(world.now, result === "ok" ? "done" : "uncertain");
    }
    for (const key of [...this.keys, ...this.foreign.keys])
      await this.read(`${machine!.name} reads ${key} in the end`, machine!, key, random);
    await this.list(`${machine!.name} lists in the end`, machines, random);
  }

  /** Removes leftovers, as a server does when it starts, and looks whether there are others. */
  async sweep(machine: Machine): Promise<void> {
    const { world } = this.#run;
    await attempt(this.#run, `${machine.name} sweeps`, machine, async () => {
      await machine.life!.product.removeAbandonedWrites({ root: folder });
    });
    for (const path of this.#disk.files())
      if (path.includes("/.sluice-")) world.violate("LEFTOVER", `${path} is left after a sweep`);
  }

  /** Nothing is open while nobody calls. */
  checkIdle(machines: readonly Machine[]): void {
    for (const { life, name } of machines) {
      const count = life ? this.#disk.openFiles(life) : 0;
      if (count > 0) this.#run.world.violate("LEAK", `${name} has ${count} descriptors open`);
    }
  }
}

/** Bytes in chunks of sizes that are drawn. */
function* chunksOf(bytes: Buffer, random: Random): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length;) {
    const end = at + random.pick([1, 500, 4_000, 20_000]);
    yield new Uint8Array(bytes.subarray(at, end));
    at = end;
  }
}
