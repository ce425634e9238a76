import type { Random } from "../world/random.ts";
import type { Machine } from "../process/machine.ts";
import { principalFor, type Serving } from "./cluster.ts";
import type { Scene } from "./scene.ts";
import { attempt } from "./workload.ts";

/** What a principal may have, in all processes together. */
export const uploadLimits = {
  requests: { perPrincipal: 2 },
  files: { perPrincipal: 8 },
  fileBytes: { perPrincipal: 100_000 },
} as const;

const sizes = [1, 20_000, 60_000] as const;
const slotTtlMs = 600_000;
/** Two of them do not fit together. */
const maxFileBytes = 60_000;

/** How often storage is looked at. */
const everyMs = 100;

/** Faults after which a server does not know what became of a file, so that it counts for less than it has. */
const unknowing = [
  "redis request lost",
  "redis reply lost",
  "storage refuses",
  "storage reply lost",
  "server crashes",
];

/** Uploads that are never confirmed. What must hold: one principal has no more of them than its limits, at all servers together. */
export class UploadLimits {
  readonly #scene: Scene;
  /** Slots that files go to. */
  readonly #urls: string[] = [];

  constructor(scene: Scene) {
    this.#scene = scene;
    void this.#watch();
  }

  /** Sends some files at a time, each to a slot of its own or to one that was reserved before. */
  async send(name: string, machine: Machine): Promise<void> {
    await Promise.all(
      [1, 2, 3].map((count) =>
        this.#sendOne(`${name} (${count})`, machine, this.#scene.world.random(`${name} ${count}`)),
      ),
    );
  }

  async #sendOne(name: string, machine: Machine, random: Random): Promise<void> {
    const { run, world, cluster } = this.#scene;
    const server = random.pick(cluster.running());
    if (!server) return;
    let url: string | undefined;
    await attempt(run, `${server.life.name} reserves ${name}`, server.life.machine, async () => {
      url = random.chance(0.2) ? this.#urls.at(-1) : await reserve(server);
    });
    if (url === undefined) return;
    this.#urls.push(url);
    await attempt(run, `${machine.name} sends ${name}`, machine, async () => {
      const life = machine.life!;
      const giveUp = new AbortController();
      const cancel = world.after(120_000, () => giveUp.abort(new TypeError("too late")), life);
      const body = random.fillBytes(Buffer.alloc(random.pick(sizes)));
      try {
        const response = await cluster.network.fetchOf(life)(sendRequest(url!, body), {
          signal: giveUp.signal,
        });
        await response.body?.cancel();
        world.count(`file ${response.status}`);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        world.count("upload broke");
      } finally {
        cancel();
      }
    });
  }

  /** Looks at storage again and again, as long as the run takes. */
  async #watch(): Promise<void> {
    const { world, cluster, run } = this.#scene;
    const { requests, files, fileBytes } = uploadLimits;
    while (!run.faults.isCalm) {
      await world.sleep(everyMs);
      const faults = unknowing.reduce((sum, kind) => sum + (world.counts.get(kind) ?? 0), 0);
      const writers = cluster.inbox.openWriters();
      if (writers > requests.perPrincipal + faults)
        world.violate("PERMITS", `${writers} uploads of one principal are written at a time`);
      const { objects } = await cluster.inbox.objects.list({});
      const kept = objects.filter(({ key }) => key.includes("/bytes-"));
      const bytes = kept.reduce((sum, { size = 0 }) => sum + size, 0);
      if (bytes > fileBytes.perPrincipal + faults * maxFileBytes)
        world.violate("QUOTA", `${bytes} bytes of one principal are kept`);
      if (kept.length > files.perPrincipal + faults)
        world.violate("QUOTA", `${kept.length} files of one principal are kept`);
    }
  }

  /** Nothing is sent any more: each server takes as many requests at a time as its limit says. */
  async checkPermits(): Promise<void> {
    for (const server of this.#scene.cluster.running())
      await this.#checkRefused(server, uploadLimits.requests.perPrincipal, 0);
  }

  /** Sends files that wait for their bytes, and counts those that are refused because of the others. */
  async #checkRefused(server: Serving, count: number, expected: number): Promise<void> {
    const { world } = this.#scene;
    const url = await reserve(server, 1);
    const ends: (() => void)[] = [];
    const answers = Array.from({ length: count }, () => {
      const body = new ReadableStream({
        start: (controller) => void ends.push(() => controller.close()),
      });
      return server.handler.fetch(sendRequest(url, body));
    });
    await world.sleep(5_000);
    for (const end of ends) end();
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    if (statuses.filter((status) => status === 429).length !== expected)
      world.violate(
        "PERMITS",
        `${server.life.machine.name} answers ${statuses.join(", ")} to ${count} uploads at a time`,
      );
  }

  /** All slots are over: nothing is kept, and each server gives the whole of every limit. */
  async checkFree(): Promise<void> {
    const { world, cluster } = this.#scene;
    const { objects } = await cluster.inbox.objects.list({});
    if (objects.length > 0) world.violate("LEFTOVER", `${objects[0]!.key} is left`);
    const permits = cluster.redis?.membersOf(isOfOwner) ?? [];
    if (permits.length > 0)
      world.violate("PERMITS", `permits are not given back: ${permits.join()}`);
    const { perPrincipal: maxBytes } = uploadLimits.fileBytes;
    for (const server of cluster.running()) {
      const { name } = server.life.machine;
      if (!(await isAccepted(server, "alice", maxBytes)))
        world.violate("QUOTA", `${name} refuses ${maxBytes} bytes, and nothing is kept`);
      if (await isAccepted(server, "alice", maxBytes + 1))
        world.violate("QUOTA", `${name} takes one byte more than the quota`);
      const { perPrincipal: requests } = uploadLimits.requests;
      await this.#checkRefused(server, requests + 1, 1);
    }
    await this.#checkFull();
  }

  /** Of two files that come at a time and do not fit together, one is kept, and no other one after it. */
  async #checkFull(): Promise<void> {
    const { world, cluster } = this.#scene;
    const servers = cluster.running();
    const statuses = await Promise.all([sendLargest(servers[0]!), sendLargest(servers.at(-1)!)]);
    statuses.push(await sendLargest(servers[0]!));
    if (statuses.filter((status) => status === 507).length !== 2)
      world.violate("QUOTA", `3 files that do not fit together get ${statuses.join(", ")}`);
  }
}

async function sendLargest(server: Serving): Promise<number> {
  const url = await reserve(server);
  const { status } = await server.handler.fetch(sendRequest(url, Buffer.alloc(maxFileBytes)));
  return status;
}

/** Permits of callers: a process keeps the one for sweeping. */
function isOfOwner(key: string): boolean {
  return key.endsWith(":permits") && !key.endsWith(":sweep:permits");
}

function sendRequest(url: string, body: Buffer | ReadableStream): Request {
  const headers = { authorization: "Bearer alice", "content-type": "application/octet-stream" };
  return new Request(url, { method: "POST", headers, body, duplex: "half" });
}

async function reserve({ uploads }: Serving, maxBytes = maxFileBytes): Promise<string> {
  const terms = { accept: [], maxBytes, maxFiles: 8, ttlMs: slotTtlMs };
  const { url } = await uploads.reserve(principalFor("alice"), terms);
  return url;
}

/** Announces a file of a size at a server, and gives it up if it may come. */
export async function isAccepted(
  { uploads, handler }: Serving,
  subject: string,
  bytes: number,
): Promise<boolean> {
  const terms = { accept: [], maxBytes: bytes, maxFiles: 1 };
  const { url } = await uploads.reserve(principalFor(subject), terms);
  const headers = { authorization: `Bearer ${subject}` };
  const announced = { ...headers, "upload-complete": "?0", "upload-length": `${bytes}` };
  const answer = await handler.fetch(
    new Request(url, { method: "POST", headers: announced, body: "" }),
  );
  const location = answer.headers.get("location");
  if (!answer.ok || location === null) return false;
  await handler.fetch(new Request(new URL(location, url), { method: "DELETE", headers }));
  return true;
}
