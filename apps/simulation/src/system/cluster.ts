import type { McpServer } from "@modelcontextprotocol/server";
import type { KeyRing, Principal } from "@sluice/core";
import type { ResumeOptions } from "@sluice/resume";
import type { Handler } from "@sluice/transport-http";
import type { SluiceOptions, Telemetry } from "@sluice/server";
import type { UploadsOptions } from "@sluice/uploads";
import { type Life, Machine } from "../process/machine.ts";
import type { Product } from "../process/product-code.ts";
import type { Run } from "../run/profile.ts";
import { Disk } from "../services/disk.ts";
import { Network } from "../services/network.ts";
import { bucketOrigin, ObjectStore, type Steps } from "../services/object-store.ts";
import { Redis } from "../services/redis.ts";
import { createRandom } from "../world/random.ts";
import { stackOf } from "../world/world.ts";

export const endpoint = "https://mcp.sim/mcp";
export const baseUri = "files://demo/";

type Sluice = ReturnType<Product["createSluice"]>;
type Uploads = ReturnType<Product["createUploads"]>;

/** What the servers of a run are. */
export interface ClusterOptions {
  readonly servers: number;
  /** What they share. Absent: each has its own memory. */
  readonly redis?: "durable" | "forgetful";
  /** Their clocks, in milliseconds ahead of the world. */
  readonly skewsMs?: readonly number[];
  readonly sluice?: Partial<Pick<SluiceOptions, "grant" | "links" | "delivery" | "limits">>;
  /** Keys of a process. Default: one that all have. */
  readonly keysFor?: (life: Life) => KeyRing;
  /** Servers keep sessions, and streams of events that resume. */
  readonly resume?: ResumeOptions;
  /** Adds tools to each MCP server. */
  readonly addTools?: (server: McpServer, life: Life) => void;
  readonly uploads?: Pick<UploadsOptions, "limits">;
  /** The storage tells of changes. Default: true. */
  readonly canWatch?: boolean;
  /** How the storage of uploads takes an object in several requests. */
  readonly inboxSteps?: Steps;
}

/** One server process, as long as it runs. */
export interface Serving {
  readonly life: Life;
  readonly sluice: Sluice;
  readonly uploads: Uploads;
  readonly handler: Handler;
}

/** Servers of the product behind one address, their storage and what they share. */
export class Cluster {
  readonly network: Network;
  readonly files: ObjectStore;
  readonly inbox: ObjectStore;
  readonly redis: Redis | undefined;
  readonly machines: readonly Machine[];
  readonly #run: Run;
  readonly #options: ClusterOptions;
  readonly #serving: Map<Machine, Serving> = new Map();
  readonly #keys: string;
  /** Names of the processes that have opened sessions. */
  readonly #sessions: Map<string, string> = new Map();
  /** Places that streams have taken. */
  readonly #streams: Map<Life, number> = new Map();

  constructor(run: Run, options: ClusterOptions) {
    const { world, faults, code } = run;
    this.#run = run;
    this.#options = options;
    this.network = new Network(world, faults);
    const machine = (name: string, skewMs = 0): Machine =>
      new Machine(world, name, new Set(), {
        code,
        skewMs,
        fetch: (life) => this.network.fetchOf(life),
      });
    const service = machine("storage");
    this.files = new ObjectStore(world, faults, service, { name: "files", isPresigning: true });
    this.inbox = new ObjectStore(world, faults, service, { name: "inbox", isPresigning: false });
    this.files.canWatch = options.canWatch ?? true;
    if (options.inboxSteps) this.inbox.steps = options.inboxSteps;
    this.redis = options.redis && new Redis(world, faults, options.redis === "durable");
    const key = createRandom("key").fillBytes(new Uint8Array(32));
    this.#keys = service.life!.product.formatKey({ kid: "k1", key });
    this.machines = Array.from({ length: options.servers }, (_, index) =>
      machine(`s${index}`, options.skewsMs?.[index]),
    );
    this.network.serve(bucketOrigin, () => [this.files.server()]);
    this.network.serve(new URL(endpoint).origin, (asked) =>
      this.#balance(asked).map(({ life, handler }) => ({
        name: life.machine.name,
        life,
        answer: (request) => handler.fetch(request),
      })),
    );
    this.network.watchers.push(({ server, response }) => {
      const session = response.headers.get("mcp-session-id");
      if (session !== null && server.life) this.#sessions.set(session, server.life.name);
    });
    for (const each of this.machines) this.boot(each);
  }

  /** Server processes that run. */
  running(): readonly Serving[] {
    return [...this.#serving.values()].filter(({ life }) => !life.isOver);
  }

  /** The process that has the session of a request, as load balancers have it, or any. */
  #balance(request: Request): readonly Serving[] {
    const running = this.running();
    const session = request.headers.get("mcp-session-id") ?? "";
    const owner = running.filter(({ life }) => life.name === this.#sessions.get(session));
    return owner.length > 0 && request.url === endpoint ? owner : running;
  }

  boot(machine: Machine): void {
    const life = machine.boot();
    const {
      createSluice,
      createHandler,
      createUploads,
      createResume,
      createRedisStores,
      McpServer,
    } = life.product;
    const { world } = this.#run;
    const redis = this.redis?.clientOf(life);
    const isDurable = this.#options.redis === "durable";
    const sluice = createSluice({
      storage: this.files.backendFor(life),
      baseUri,
      endpoint,
      keys: this.#options.keysFor?.(life) ?? this.#keys,
      ...(redis && { stores: createRedisStores({ redis, durable: isDurable, onWarning() {} }) }),
      principal: ({ header }) => principalOf(header("authorization")),
      links: true,
      redirectOrigins: [bucketOrigin],
      onError(error) {
        world.log(`${life.name} onError ${String(error).slice(0, 200)}`);
        if (isMistake(error)) world.violate("INTERNAL", stackOf(error));
      },
      onWarning() {},
      telemetry: streamCounter((count) => this.#countStreams(life, count)),
      ...this.#options.sluice,
    } as SluiceOptions);
    const uploads = createUploads(sluice, {
      storage: this.inbox.backendFor(life),
      scan: "none",
      ...this.#options.uploads,
    });
    const { addTools, resume } = this.#options;
    const create = () => {
      const server = sluice.attach(new McpServer({ name: "simulated", version: "1.0.0" }));
      addTools?.(server, life);
      return server;
    };
    const sessions = resume ? { resume: createResume(resume) } : { sessions: false as const };
    const handler = createHandler({ sluice, create, uploads, ...sessions });
    this.#serving.set(machine, { life, sluice, uploads, handler });
  }

  #countStreams(life: Life, change: number): void {
    this.#streams.set(life, (this.#streams.get(life) ?? 0) + change);
  }

  /** Clients on one host, which share a disk. */
  createClients(
    count: number,
    skewsMs: readonly number[] = [],
  ): { readonly disk: Disk; readonly machines: readonly Machine[] } {
    const { world, faults, code } = this.#run;
    const disk = new Disk(world, faults);
    const running = new Set<number>();
    const machines = Array.from(
      { length: count },
      (_, index) =>
        new Machine(world, `c${index}`, running, {
          code,
          disk,
          skewMs: skewsMs[index] ?? 0,
          fetch: (life) => this.network.fetchOf(life),
        }),
    );
    for (const machine of machines) machine.boot();
    return { disk, machines };
  }

  /** Ends all partitions, and starts what does not run. */
  heal(): void {
    this.network.cutOff.clear();
    this.redis?.cutOff.clear();
    this.files.cutOff.clear();
    this.inbox.cutOff.clear();
    for (const machine of this.machines) if (!machine.life) this.boot(machine);
  }

  /** What may not be open once all is idle. */
  checkIdle(clients: readonly Machine[]): void {
    const { world } = this.#run;
    const counts = {
      "bodies and writers of storage": this.files.openCount() + this.inbox.openCount(),
      connections: this.network.openConnections(),
    };
    for (const [what, count] of Object.entries(counts))
      if (count > 0) world.violate("LEAK", `${count} ${what} are open`);
    for (const { life, name } of [...this.machines, ...clients]) {
      const streams = (life && this.#streams.get(life)) ?? 0;
      if (streams !== 0) world.violate("LEAK", `${name} has ${streams} places of streams taken`);
      const timers = life?.timersOlder(120_000) ?? 0;
      if (timers > 0)
        world.violate("LEAK", `${name} has ${timers} old timers that keep it running`);
    }
  }
}

/** An error that only a mistake in code throws. */
function isMistake(error: unknown): boolean {
  return [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => error instanceof kind);
}

/** Telemetry that counts streams, and nothing else. */
function streamCounter(countStreams: (change: number) => void): Telemetry {
  return {
    begin: () => ({ run: (work) => work(), end() {}, count() {} }),
    countStreams,
    runApart: (work) => work(),
  };
}

function principalOf(authorization: string | undefined): Principal | undefined {
  const subject = /^Bearer (\w+)$/.exec(authorization ?? "")?.[1];
  return subject === undefined ? undefined : principalFor(subject);
}

/** The principal of a bearer token, which is its subject. */
export function principalFor(subject: string): Principal {
  return { issuer: "https://id.sim", subject, clientId: "simulated" };
}
