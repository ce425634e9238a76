import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import { Machine } from "../process/machine.ts";
import type { Run } from "../run/profile.ts";
import { type Program, Programs } from "../services/programs.ts";
import type { Random } from "../world/random.ts";
import { attempt } from "./workload.ts";

interface Response {
  readonly result?: { readonly content?: readonly { readonly text: string }[] };
  readonly error?: { readonly message: string; readonly data?: { readonly retryable?: boolean } };
}

/** A host and the bridge that it runs. */
interface Session {
  readonly transport: Transport;
  readonly waiting: Map<number, (response: Response | undefined) => void>;
  isOver: boolean;
}

/** Every call ends by then: a bridge tries for 30 s to reach its server, which answers within 10 s. */
const maxCallMs = 90_000;

/**
 * Calls of a host through a bridge to a program that crashes. What must hold: each call ends in time, and none is done
 * twice that may not be.
 */
export class BridgeTrials {
  readonly machine: Machine;
  readonly #run: Run;
  readonly #programs: Programs;
  readonly #initialized: WeakSet<Program> = new WeakSet();
  /** How often each call was done. */
  readonly #done: Map<string, number> = new Map();
  #session: Promise<Session> | undefined;
  #lastId = 0;

  constructor(run: Run) {
    const { world, code } = run;
    this.#run = run;
    this.#programs = new Programs(world, (program) => (line) => this.#serve(program, line));
    this.machine = new Machine(world, "b0", new Set(), {
      code,
      programs: this.#programs,
      fetch: () => () => Promise.reject(new TypeError("there is no network")),
    });
  }

  /** What the server behind the bridge does with a line. */
  #serve(program: Program, line: string): void {
    const { world, faults } = this.#run;
    const { id, method, params } = JSON.parse(line) as Record<string, any>;
    if (id === undefined) return;
    const answer = (message: object): void =>
      void world.after(program.random.next() * program.random.pick([5, 5, 9_000]), () =>
        program.say({ id, ...message }),
      );
    if (method === "initialize") {
      this.#initialized.add(program);
      const { protocolVersion } = params;
      const serverInfo = { name: "simulated", version: "1.0.0" };
      return answer({ result: { protocolVersion, capabilities: { tools: {} }, serverInfo } });
    }
    if (!this.#initialized.has(program))
      return answer({ error: { code: -32_600, message: "not initialized" } });
    if (method === "tools/list") {
      const inputSchema = { type: "object" };
      const look = { name: "look", inputSchema, annotations: { readOnlyHint: true } };
      return answer({ result: { tools: [{ name: "pay", inputSchema }, look] } });
    }
    if (method !== "tools/call") return answer({ error: { code: -32_601, message: "unknown" } });
    const crash = faults.strike("program crashes", program.name);
    if (crash?.chance(0.3)) return program.exit(1);
    const token = String(params.arguments.token);
    const count = (this.#done.get(token) ?? 0) + 1;
    this.#done.set(token, count);
    world.log(`${program.name} does ${token}`);
    if (count > 1 && params.name === "pay") world.violate("TWICE", `${token} is done twice`);
    if (crash) return program.exit(1);
    return answer({ result: { content: [{ type: "text", text: token }] } });
  }

  /** Calls a tool. Gives whether it had a result. */
  async call(name: string, random: Random): Promise<boolean> {
    const { world } = this.#run;
    let isDone = false;
    await attempt(this.#run, name, this.machine, async () => {
      const session = await (this.#session ??= this.#open());
      const tool = random.pick(["pay", "pay", "look"]);
      const padding = "x".repeat(random.pick([0, 500, 3_000, 9_000]));
      const params = { name: tool, arguments: { token: name, padding } };
      const response = await this.#ask(session, "tools/call", params);
      world.count(response?.result ? "result" : (response?.error?.message ?? "ended"));
      isDone = response?.result?.content?.[0]?.text === name;
      if (response?.result && !isDone) world.violate("RESULT", `${name} got another result`);
      const mayRepeat = response?.error?.data?.retryable === true;
      if (mayRepeat && tool === "pay" && this.#done.has(name))
        world.violate("TWICE", `${name} was done, and the bridge says that it can be repeated`);
      if (isDone && !this.#done.has(name)) world.violate("RESULT", `${name} was never done`);
    });
    return isDone;
  }

  async #open(): Promise<Session> {
    const { world } = this.#run;
    const life = this.machine.life ?? this.machine.boot();
    const session: Session = {
      transport: this.#transportOf(() => session),
      waiting: new Map(),
      isOver: false,
    };
    const { runBridge, createProcessUpstream } = life.product;
    const upstream = createProcessUpstream({ command: "server" });
    const over = (error?: unknown): void => {
      session.isOver = true;
      this.#session = undefined;
      world.log(`the bridge ends: ${String(error)}`);
      for (const settle of session.waiting.values()) settle(undefined);
    };
    life.onEnd(over);
    runBridge({ host: session.transport, upstream }).then(over, over);
    const clientInfo = { name: "host", version: "1.0.0" };
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
    // a program may crash before it answers; its host tries again
    while (!session.isOver && !(await this.#ask(session, "initialize", params))?.result)
      await world.sleep(1_000);
    this.#send(session, { method: "notifications/initialized" });
    await this.#ask(session, "tools/list", {});
    return session;
  }

  /** The host's end: what the bridge sends comes to those who wait. */
  #transportOf(session: () => Session): Transport {
    const transport: Transport = {
      async start() {},
      async send(message: JSONRPCMessage) {
        if (!("id" in message) || "method" in message) return;
        session().waiting.get(Number(message.id))?.(message as Response);
      },
      // oxlint-disable-next-line unicorn/prefer-add-event-listener -- transports of the SDK have properties only
      close: async () => transport.onclose?.(),
    };
    return transport;
  }

  #send({ transport, isOver }: Session, message: object): void {
    const { world } = this.#run;
    const { life } = this.machine;
    if (isOver || !life) return;
    const whole = { jsonrpc: "2.0", ...message } as JSONRPCMessage;
    world.after(0.1, () => transport.onmessage?.(whole), life);
  }

  #ask(session: Session, method: string, params: object): Promise<Response | undefined> {
    const { world } = this.#run;
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      const begunAt = world.now;
      const settle = (response: Response | undefined): void => {
        session.waiting.delete(id);
        cancel();
        resolve(response);
      };
      const cancel = world.after(maxCallMs, () => {
        world.violate(
          "SLOW",
          `${method} is not answered after ${Math.round(world.now - begunAt)} ms`,
        );
        settle(undefined);
      });
      if (session.isOver) return settle(undefined);
      session.waiting.set(id, settle);
      return this.#send(session, { id, method, params });
    });
  }

  /** The program behind the bridge ends by itself. */
  crashProgram(random: Random): void {
    const { running } = this.#programs;
    if (running.length > 0) random.pick(running).exit(1);
  }

  /** The host leaves. */
  async end(): Promise<void> {
    const session = await this.#session;
    await session?.transport.close();
  }

  checkIdle(): void {
    const { world } = this.#run;
    const { running } = this.#programs;
    if (running.length > 0) world.violate("LEAK", `${running.length} programs run`);
    const timers = this.machine.life?.timersOlder(120_000) ?? 0;
    if (timers > 0) world.violate("LEAK", `the bridge has ${timers} old timers`);
  }
}
