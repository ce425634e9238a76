import { fork } from "node:child_process";
import { once } from "node:events";
import { dirname, extname, join } from "node:path";

/** A program of this app in a process of its own. */
export interface Peer {
  /** Puts a question to it and waits for the answer; rejects when it fails or dies. */
  ask<Answer>(question: string, input?: object): Promise<Answer>;
  stop(): Promise<void>;
}

/** How much memory a process takes, in bytes of resident set. */
export interface MemoryUse {
  /** Before there was anything to do. */
  readonly idleBytes: number;
  readonly peakBytes: number;
}

type Message =
  | { readonly kind: "answer"; readonly answer: unknown }
  | { readonly kind: "failure"; readonly message: string }
  | { readonly kind: "news"; readonly news: unknown };

/** Starts a program that lies beside the one that runs. `onNews` gets what it tells without being asked. */
export function startPeer(program: string, onNews: (news: unknown) => void = () => {}): Peer {
  const main = process.argv[1]!;
  const path = join(dirname(main), program + extname(main));
  // the parent's own flags are passed on, so the child runs TypeScript too
  const child = fork(path, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const ended = once(child, "exit");
  return {
    ask<Answer>(question: string, input: object = {}) {
      return new Promise<Answer>((resolve, reject) => {
        const onMessage = (message: Message): void => {
          if (message.kind === "news") return onNews(message.news);
          child.off("message", onMessage);
          if (message.kind === "answer") resolve(message.answer as Answer);
          else reject(new Error(message.message));
        };
        child.on("message", onMessage);
        child.once("exit", (code) => reject(new Error(`${program} ended with ${code}`)));
        child.send({ question, input });
      });
    },
    async stop() {
      child.kill();
      await ended;
    },
  };
}

/** The other side: answers each question with what its function gives. */
export function answerQuestions(answers: Record<string, (input: never) => unknown>): void {
  markIdle();
  const all: typeof answers = {
    ...answers,
    memory: (): MemoryUse => ({ idleBytes, peakBytes: peakBytes() }),
  };
  process.on("message", ({ question, input }: { question: string; input: never }) => {
    Promise.resolve()
      .then(() => all[question]!(input))
      .then((answer) => tell({ kind: "answer", answer }))
      .catch((error: Error) => tell({ kind: "failure", message: error.message }));
  });
  process.on("disconnect", () => process.exit());
}

let idleBytes = 0;

/** Everything is loaded and connected: memory from here on is what the work takes. */
export function markIdle(): void {
  idleBytes = peakBytes();
}

/** Tells the parent something that it did not ask for. */
export function tellNews(news: object): void {
  tell({ kind: "news", news });
}

function tell(message: Message): void {
  process.send?.(message);
}

function peakBytes(): number {
  return process.resourceUsage().maxRSS * 1024;
}
