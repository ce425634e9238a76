import type { Life } from "../process/machine.ts";
import type { Faults } from "../world/faults.ts";
import type { Random } from "../world/random.ts";
import type { World } from "../world/world.ts";
import { Connection } from "./connection.ts";

/** Something that answers HTTP requests: a process, or a service outside of the simulated hosts. */
export interface Server {
  readonly name: string;
  /** Ends every connection when it is over. Absent: it is never over. */
  readonly life?: Life;
  answer(request: Request): Promise<Response>;
}

/** What a profile looks at: every response as the server gave it. */
export type Watch = (seen: {
  readonly url: URL;
  readonly method: string;
  readonly server: Server;
  readonly response: Response;
  /** When the request came to the server. */
  readonly begunAt: number;
}) => void;

/** HTTP between processes: a `fetch` for each, over connections that are slow, break, stall and deliver twice. */
export class Network {
  readonly world: World;
  readonly faults: Faults;
  readonly #servers: Map<string, (request: Request) => readonly Server[]> = new Map();
  readonly #requests: Map<string, number> = new Map();
  readonly #open: Map<Connection, Life> = new Map();
  readonly watchers: Watch[] = [];
  /** Pairs `client>server` between which nothing comes through. */
  readonly cutOff: Set<string> = new Set();
  /** Greatest time of a packet on its way, in milliseconds. */
  slownessMs = 5;

  constructor(world: World, faults: Faults) {
    this.world = world;
    this.faults = faults;
  }

  /** Says who answers for an origin; of several, each request gets one. */
  serve(origin: string, servers: (request: Request) => readonly Server[]): void {
    this.#servers.set(origin, servers);
  }

  /** The `fetch` of a process. One that was killed may still run a few lines: they reach nobody. */
  fetchOf(life: Life): (input: string | URL | Request, init?: RequestInit) => Promise<Response> {
    return async (input, init) => {
      if (life.isOver) return new Promise(() => {});
      const request = new Request(input, {
        ...init,
        ...(init?.body != null && { duplex: "half" as const }),
      });
      const body = request.body === null ? undefined : new Uint8Array(await request.arrayBuffer());
      const signal = init?.signal ?? undefined;
      signal?.throwIfAborted();
      const connection = new Connection(this, life, this.#placeOf(life), request, body);
      this.#open.set(connection, life);
      connection.onClose(() => this.#open.delete(connection));
      return connection.run(signal);
    };
  }

  /** Who answers a request now. */
  serverFor(request: Request, client: Life, random: Random): Server | undefined {
    const isReachable = ({ name, life }: Server): boolean =>
      !life?.isOver && (this.faults.isCalm || !this.cutOff.has(`${client.machine.name}>${name}`));
    const servers = (this.#servers.get(new URL(request.url).origin)?.(request) ?? []).filter(
      isReachable,
    );
    return servers.length === 0 ? undefined : random.pick(servers);
  }

  /** Connections of processes that still run. */
  openConnections(): number {
    return [...this.#open.values()].filter((life) => !life.isOver).length;
  }

  #placeOf(life: Life): string {
    const count = (this.#requests.get(life.name) ?? 0) + 1;
    this.#requests.set(life.name, count);
    return `${life.name}/${count}`;
  }
}
