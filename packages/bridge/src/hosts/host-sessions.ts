import { randomUUID } from "node:crypto";
import { isInitializeRequest } from "@modelcontextprotocol/server";
import type { SessionTable } from "@sluice/core/async";
import type { HostFacts, HostParts } from "./host-session.ts";
import { refuseRequest, serverNotOpened, sessionNotFound, sessionsFull } from "./http-refusal.ts";
import { RunningBridge } from "./running-bridge.ts";
import { SessionHost } from "./session-host.ts";

const noSession = "Bad Request: open a session with initialize, and send its Mcp-Session-Id";

/** Sessions of hosts of 2025-11-25 and older: each has a bridge of its own. */
export class HostSessions {
  readonly #table: SessionTable<RunningBridge>;
  readonly #parts: HostParts;

  constructor(table: SessionTable<RunningBridge>, parts: HostParts) {
    this.#table = table;
    this.#parts = parts;
  }

  /** Answers a request of the session that it names, or one that opens a session. */
  async serve(request: Request, body: unknown, facts: HostFacts): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    if (id === null)
      return isInitializeRequest(body)
        ? this.#open(request, body, facts)
        : refuseRequest(400, -32_000, noSession);
    const entry = this.#table.find(id);
    const host = entry?.live.host;
    if (entry?.holder !== facts.caller || !(host instanceof SessionHost)) return sessionNotFound();
    return host.handle(request, body, this.#table.hold(entry));
  }

  async #open(request: Request, body: unknown, facts: HostFacts): Promise<Response> {
    const id = randomUUID();
    const host = new SessionHost(id);
    const live = new RunningBridge({ id, revision: "legacy", ...facts }, host, this.#parts);
    const entry = { id, holder: facts.caller, owner: facts.caller, live };
    if (!this.#table.add(entry)) return sessionsFull();
    const release = this.#table.hold(entry);
    const drop = (): void => this.#table.remove(id);
    try {
      await live.begin(drop);
    } catch (error) {
      drop();
      this.#parts.note(error instanceof Error ? error.message : String(error));
      return serverNotOpened(error);
    }
    const response = await host.handle(request, body, release);
    if (!response.ok) this.#parts.end(live);
    return response;
  }
}
