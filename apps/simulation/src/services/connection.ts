import type { Life } from "../process/machine.ts";
import type { Random } from "../world/random.ts";
import { stackOf, type World } from "../world/world.ts";
import type { Network, Server } from "./network.ts";

/** One request and its response, on their way between two processes. */
export class Connection {
  readonly #network: Network;
  readonly #world: World;
  readonly #client: Life;
  /** Names it in faults and logs. */
  readonly #place: string;
  readonly #request: Request;
  readonly #url: URL;
  readonly #body: Uint8Array | undefined;
  readonly #random: Random;
  readonly #closings: (() => void)[] = [];
  #isOpen = true;
  /** Ends what the client waits for. */
  #fail: (error: unknown) => void = () => {};
  /** Tells the server that the client is gone. */
  #hangUp: (() => void) | undefined;

  constructor(
    network: Network,
    client: Life,
    place: string,
    request: Request,
    body: Uint8Array | undefined,
  ) {
    this.#network = network;
    this.#world = network.world;
    this.#client = client;
    this.#place = place;
    this.#request = request;
    this.#url = new URL(request.url);
    this.#body = body;
    this.#random = network.world.random(`connection ${place}`);
  }

  /** Calls back when it is over, however that came. */
  onClose(happen: () => void): void {
    this.#closings.push(happen);
  }

  run(signal: AbortSignal | undefined): Promise<Response> {
    const { faults } = this.#network;
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      const abort = (): void => this.#leave(signal?.reason);
      signal?.addEventListener("abort", abort);
      this.onClose(() => signal?.removeEventListener("abort", abort));
      this.onClose(this.#client.onEnd(() => this.#leave(new Error("killed"))));
      const lost = faults.strike("request lost", this.#place);
      if (lost) return this.#breakAfter(lost.int(1, 3_000), "no route");
      if (faults.strike("request stalls", this.#place)) return undefined;
      this.#later(() => this.#arrive(resolve));
      // a client or a proxy that lost its connection sends a request once more, and nobody waits for the first
      if (faults.strike("request comes twice", this.#place))
        this.#world.after(this.#delayMs(), () => this.#arriveAgain());
    });
  }

  #delayMs(): number {
    return 0.2 + this.#random.next() * this.#network.slownessMs;
  }

  #later(happen: () => void, owner?: Life): void {
    this.#world.after(this.#delayMs(), happen, owner);
  }

  #close(): void {
    this.#isOpen = false;
    for (const happen of this.#closings.splice(0)) happen();
  }

  /** The client gives up. */
  #leave(reason: unknown): void {
    if (!this.#isOpen) return;
    this.#close();
    this.#fail(reason);
    const hangUp = this.#hangUp;
    if (hangUp) this.#later(hangUp);
  }

  /** The connection breaks for both. */
  #breakAfter(ms: number, why: string): void {
    if (!this.#isOpen) return;
    this.#close();
    const hangUp = this.#hangUp;
    if (hangUp) this.#later(hangUp);
    this.#world.after(ms, () => this.#fail(new TypeError(`fetch failed: ${why}`)), this.#client);
  }

  #break(why: string): void {
    this.#breakAfter(this.#delayMs(), why);
  }

  #serverNow(): Server | undefined {
    return this.#network.serverFor(this.#request, this.#client, this.#random);
  }

  #arriveAgain(): void {
    const server = this.#serverNow();
    if (!server) return;
    server.life?.enter();
    const { request } = this.#requestAt(server, () => {});
    server.answer(request).then(
      (response) => response.body?.cancel(),
      () => {},
    );
  }

  #arrive(resolve: (response: Response) => void): void {
    if (!this.#isOpen) return;
    const server = this.#serverNow();
    if (!server) return this.#break("connection refused");
    const begunAt = this.#world.now;
    if (server.life) this.onClose(server.life.onEnd(() => this.#break("the server was killed")));
    server.life?.enter();
    const { request, hangUp } = this.#requestAt(server, () => this.#break("socket hang up"));
    this.#hangUp = hangUp;
    const { method } = request;
    const what = `${this.#place} ${method} ${shortPath(this.#url)}`;
    this.#world.log(`${server.name} gets ${what}`);
    server.answer(request).then(
      (response) => {
        if (server.life?.isOver) return undefined;
        this.#world.log(`${server.name} answers ${response.status} to ${what}`);
        this.#world.count(`${method} ${response.status}`);
        for (const watch of this.#network.watchers)
          watch({ url: this.#url, method, server, response, begunAt });
        return this.#deliver(response, server, resolve);
      },
      (error: unknown) => {
        if (server.life?.isOver) return;
        this.#world.violate("HANDLER", `${what} was not answered: ${stackOf(error)}`);
        this.#break("no response");
      },
    );
  }

  /** The request as a server sees it: its body comes piece by piece. */
  #requestAt(
    server: Server,
    onCut: () => void,
  ): { readonly request: Request; readonly hangUp: () => void } {
    const gone = new AbortController();
    const body = this.#body;
    const headers = new Headers(this.#request.headers);
    if (body) headers.set("content-length", String(body.length));
    const cut =
      body && body.length > 1 ? this.#network.faults.strike("upload cut", this.#place) : undefined;
    const cutAt = cut ? cut.int(0, body!.length - 1) : Infinity;
    let stop = nothing;
    const upload = (): ReadableStream<Uint8Array> =>
      new ReadableStream(
        {
          start: (controller) => {
            stop = () => controller.error(new Error("aborted"));
          },
          pull: async (controller) => {
            await this.#world.sleep(this.#delayMs() / 4, server.life);
            const at = sent;
            const end = Math.min(body!.length, cutAt, at + this.#random.pick(pieceSizes));
            sent = end;
            if (end > at) controller.enqueue(new Uint8Array(body!.subarray(at, end)));
            if (end >= cutAt) {
              stop = nothing;
              gone.abort(new Error("the client is gone"));
              controller.error(new Error("ECONNRESET"));
              onCut();
            } else if (end >= body!.length) {
              stop = nothing;
              controller.close();
            }
          },
          cancel: () => void (stop = nothing),
        },
        { highWaterMark: 0 },
      );
    let sent = 0;
    const { method } = this.#request;
    const content = body && (body.length > 0 ? { body: upload(), duplex: "half" } : { body: "" });
    const request = new Request(this.#url, {
      method,
      headers,
      signal: gone.signal,
      ...content,
    } as RequestInit);
    const hangUp = (): void => {
      if (server.life?.isOver || gone.signal.aborted) return;
      server.life?.enter();
      this.#world.log(`${server.name} sees ${this.#place} end`);
      stop();
      stop = nothing;
      gone.abort(new Error("the client is gone"));
    };
    return { request, hangUp };
  }

  /** Brings the response to the client. */
  #deliver(response: Response, server: Server, resolve: (response: Response) => void): void {
    const dismiss = (): void => void response.body?.cancel().catch(() => {});
    if (!this.#isOpen) return dismiss();
    if (this.#network.faults.strike("response lost", this.#place)) {
      dismiss();
      return this.#break("socket hang up");
    }
    // also for a client that is killed: the server must see that it left
    this.#later(() => {
      if (!this.#isOpen) return dismiss();
      this.#client.enter();
      const { status, headers } = response;
      if (!response.body) {
        this.#close();
        return resolve(new Response(null, { status, headers }));
      }
      const { pipe, body } = this.#openPipe();
      resolve(new Response(body, { status, headers }));
      void this.#pump(response, server, pipe);
    });
  }

  #openPipe(): { readonly pipe: Pipe; readonly body: ReadableStream<Uint8Array> } {
    let pipe: Pipe | undefined;
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          pipe = new Pipe(controller);
        },
        pull: () => pipe!.wanted(),
        cancel: () => this.#leave(undefined),
      },
      { highWaterMark: 1 },
    );
    this.#fail = (error) => pipe!.fail(error);
    return { pipe: pipe!, body };
  }

  /** Carries the body of a response, with the faults that a network has. */
  async #pump(response: Response, server: Server, pipe: Pipe): Promise<void> {
    const reader = response.body!.getReader();
    const stop = (): void => void reader.cancel(new Error("the client is gone")).catch(() => {});
    const hangUp = this.#hangUp;
    this.#hangUp = () => {
      hangUp?.();
      stop();
    };
    const length = Number(response.headers.get("content-length") ?? Number.NaN);
    const { cutAt, isClean, flipAt } = this.#faultsOf(response, length);
    let received = 0;
    try {
      while (this.#isOpen) {
        const step = await reader.read();
        if (server.life?.isOver || !this.#isOpen) return stop();
        if (step.done) {
          if (received !== length && Number.isFinite(length) && this.#request.method === "GET")
            this.#world.violate(
              "LENGTH",
              `${this.#place}: the server ended after ${received} of ${length} bytes`,
            );
          return this.#end(pipe);
        }
        let chunk = step.value;
        if (flipAt >= received && flipAt < received + chunk.length) {
          chunk = new Uint8Array(chunk);
          chunk[flipAt - received]! ^= 1;
        }
        if (received + chunk.length > length)
          this.#world.violate("LENGTH", `${this.#place}: more than ${length} bytes`);
        const rest = chunk.subarray(0, Math.max(0, cutAt - received));
        received += chunk.length;
        if (received > cutAt) return this.#cut(pipe, rest, isClean, stop);
        await this.#pass(pipe, new Uint8Array(chunk));
      }
    } catch (error) {
      if (server.life?.isOver) return;
      this.#world.log(`${server.name} breaks ${this.#place}: ${String(error).slice(0, 100)}`);
      this.#break("terminated");
    }
  }

  #faultsOf(
    response: Response,
    length: number,
  ): { cutAt: number; isClean: boolean; flipAt: number } {
    const { faults } = this.#network;
    const size = Number.isFinite(length) ? length : 20_000;
    if (size === 0) return { cutAt: Infinity, isClean: false, flipAt: -1 };
    const cut = faults.strike("response cut", this.#place);
    const end = cut ? undefined : faults.strike("response ends early", this.#place);
    // only where a digest was promised: nothing else can tell
    const isPromised = response.headers.has("repr-digest") && response.status === 200;
    const flip = isPromised ? faults.strike("bit flips", this.#place) : undefined;
    const at = cut ?? end;
    return {
      cutAt: at ? at.int(0, size - 1) : Infinity,
      isClean: end !== undefined,
      flipAt: flip ? flip.int(0, size - 1) : -1,
    };
  }

  /** Gives the client one chunk, and waits until it wants more. */
  #pass(pipe: Pipe, chunk: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      this.onClose(resolve);
      this.#world.after(
        this.#delayMs() / 4,
        () => {
          if (!this.#isOpen) return resolve();
          pipe.give(chunk, resolve);
        },
        this.#client,
      );
    });
  }

  #end(pipe: Pipe): void {
    this.#later(() => {
      if (!this.#isOpen) return;
      this.#close();
      pipe.end();
    }, this.#client);
  }

  #cut(pipe: Pipe, rest: Uint8Array, isClean: boolean, stop: () => void): void {
    stop();
    this.#later(() => {
      if (!this.#isOpen) return;
      if (rest.length > 0) pipe.give(new Uint8Array(rest), () => {});
      if (!isClean) return this.#break("terminated");
      this.#close();
      pipe.end();
    }, this.#client);
  }
}

function nothing(): void {}

/** The client's end of a body. */
class Pipe {
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;
  #isOver = false;
  #goOn: (() => void) | undefined;

  constructor(controller: ReadableStreamDefaultController<Uint8Array>) {
    this.#controller = controller;
  }

  give(chunk: Uint8Array, goOn: () => void): void {
    if (this.#isOver) return goOn();
    this.#controller.enqueue(chunk);
    if ((this.#controller.desiredSize ?? 1) > 0) goOn();
    else this.#goOn = goOn;
  }

  wanted(): void {
    const goOn = this.#goOn;
    this.#goOn = undefined;
    goOn?.();
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#controller.close();
  }

  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#controller.error(error);
  }
}

const pieceSizes = [100, 4_000, 16_384, 65_536] as const;

/** Without the tokens, which are long. */
function shortPath({ pathname }: URL): string {
  return pathname.replace(/[\w-]{24,}/g, "…");
}
