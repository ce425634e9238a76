import { EventEmitter } from "node:events";
import { Readable, Writable } from "node:stream";
import type { Life } from "../process/machine.ts";
import type { Random } from "../world/random.ts";
import type { World } from "../world/world.ts";

/** Bytes that wait in a pipe. */
const pipeBytes = 5_000;
/** Bytes that a stream holds before it says that it is full. */
const highWaterMark = 2_000;

/** Programs that processes start with `node:child_process`: they read and write lines. */
export class Programs {
  readonly #world: World;
  readonly #serve: (program: Program) => (line: string) => void;
  readonly #running: Set<Program> = new Set();
  #starts = 0;

  /** `serve` gives what a program does with each line. */
  constructor(world: World, serve: (program: Program) => (line: string) => void) {
    this.#world = world;
    this.#serve = serve;
  }

  get running(): readonly Program[] {
    return [...this.#running];
  }

  /** `spawn` of a process. */
  spawnOf(life: Life): () => EventEmitter {
    return () => {
      const program = new Program(this.#world, life, `p${++this.#starts}`, () =>
        this.#running.delete(program),
      );
      this.#running.add(program);
      program.begin(this.#serve(program));
      return program.child;
    };
  }
}

/** A program that runs, at the other ends of the pipes of a process. */
export class Program {
  readonly name: string;
  readonly random: Random;
  /** What its parent has of it. */
  readonly child: EventEmitter;
  readonly #world: World;
  readonly #life: Life;
  readonly #stdin: Writable;
  readonly #stdout: Readable;
  readonly #onOver: () => void;
  #onLine: (line: string) => void = () => {};
  /** What its parent writes and the pipe has no room for. */
  #blocked: { bytes: Buffer; readonly done: (error?: Error) => void } | undefined;
  #pipe = Buffer.alloc(0);
  #line = Buffer.alloc(0);
  #isEnded = false;
  isOver = false;

  constructor(world: World, life: Life, name: string, onOver: () => void) {
    this.#world = world;
    this.#life = life;
    this.name = name;
    this.#onOver = onOver;
    this.random = world.random(`program ${name}`);
    this.#stdin = new Writable({
      highWaterMark,
      write: (bytes: Buffer, _encoding, done) => {
        this.#blocked = { bytes, done };
        this.#fillPipe();
      },
      final: (done) => {
        this.#isEnded = true;
        done();
      },
    });
    this.#stdout = new Readable({ read() {} });
    const { pid } = life;
    this.child = Object.assign(new EventEmitter(), {
      pid: pid * 1_000,
      stdin: this.#stdin,
      stdout: this.#stdout,
      kill: () => true,
    });
    life.onEnd(() => this.#end());
  }

  begin(onLine: (line: string) => void): void {
    this.#onLine = onLine;
    this.#world.after(1, () => this.child.emit("spawn"), this.#life);
    this.#readOn();
  }

  /** Writes a line, which arrives in pieces. */
  say(message: object): void {
    if (this.isOver) return;
    const bytes = Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const middle = this.random.int(0, bytes.length - 1);
    for (const piece of [bytes.subarray(0, middle), bytes.subarray(middle)])
      this.#world.after(0.1, () => void this.#stdout.push(piece), this.#life);
  }

  exit(code: number): void {
    if (this.isOver) return;
    this.#end();
    this.#world.log(`${this.name} exits with ${code}`);
    this.#world.after(
      0.2 + this.random.next() * 5,
      () => {
        this.#blocked?.done(new Error("EPIPE"));
        this.#stdin.destroy();
        this.#stdout.push(null);
        this.child.emit("exit", code, null);
      },
      this.#life,
    );
  }

  #end(): void {
    this.isOver = true;
    this.#onOver();
  }

  #fillPipe(): void {
    if (!this.#blocked || this.isOver) return;
    const { bytes, done } = this.#blocked;
    const taken = bytes.subarray(0, pipeBytes - this.#pipe.length);
    this.#pipe = Buffer.concat([this.#pipe, taken]);
    this.#blocked.bytes = bytes.subarray(taken.length);
    if (this.#blocked.bytes.length > 0) return;
    this.#blocked = undefined;
    done();
  }

  #readOn(): void {
    const pauseMs = this.random.next() * this.random.pick([2, 2, 50, 2_000]);
    this.#world.after(pauseMs, () => {
      if (this.isOver) return;
      const piece = this.#pipe.subarray(0, this.random.pick([100, 4_000]));
      this.#pipe = this.#pipe.subarray(piece.length);
      this.#life.enter();
      this.#fillPipe();
      this.#line = Buffer.concat([this.#line, piece]);
      for (
        let end = this.#line.indexOf(10);
        end >= 0 && !this.isOver;
        end = this.#line.indexOf(10)
      ) {
        const line = this.#line.subarray(0, end).toString();
        this.#line = this.#line.subarray(end + 1);
        this.#onLine(line);
      }
      if (this.#isEnded && this.#pipe.length === 0 && !this.#blocked) this.exit(0);
      else this.#readOn();
    });
  }
}
