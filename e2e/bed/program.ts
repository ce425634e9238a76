import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { inject } from "vitest";

/** One of `programs/` as a child process. */
export interface Program<Hello> extends AsyncDisposable {
  /** Its first message. */
  readonly hello: Hello;
  /** Sends a message and waits for the answer. Rejects when the program ends. */
  ask<Answer>(question: object | string): Promise<Answer>;
  readonly process: ChildProcess;
}

export async function startProgram<Hello>(
  name:
    | "serve"
    | "serve-binary"
    | "serve-draining"
    | "serve-flooded"
    | "serve-sdk-example"
    | "serve-shared"
    | "serve-storage"
    | "serve-surveys"
    | "serve-unread"
    | "serve-uploads"
    | "diagnose"
    | "download"
    | "flood"
    | "move-binary",
  settings: object = {},
  env: NodeJS.ProcessEnv = {},
): Promise<Program<Hello>> {
  const program = inject("programs")[`e2e/bed/programs/${name}.ts`]!;
  const child = fork(program, [JSON.stringify(settings)], {
    execArgv: [],
    env: { ...process.env, ...env },
  });
  const ended = once(child, "exit").then(([code, signal]) => {
    throw new Error(`${name} ended with ${String(code ?? signal)}`);
  });
  ended.catch(() => {});
  const answer = async <Answer>(): Promise<Answer> => {
    const [message] = (await Promise.race([once(child, "message"), ended])) as [Answer];
    return message;
  };
  return {
    hello: await answer<Hello>(),
    process: child,
    ask(question) {
      const answered = answer<never>();
      child.send(question);
      return answered;
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, "exit");
      child.disconnect();
      const force = setTimeout(() => child.kill("SIGKILL"), 3_000);
      await exited;
      clearTimeout(force);
    },
  };
}
