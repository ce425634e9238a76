import { CommanderError, type Command } from "commander";
import { exitCodes } from "../outcome/exit-code.ts";
import { describeFailure, exitStatus, Stopped } from "../outcome/failure.ts";
import { endWithReader, note } from "../terminal/print.ts";
import { createProgram } from "./program.ts";

/** Runs the command line and sets the exit status of the process. */
export async function run(args: readonly string[]): Promise<void> {
  const stop = stopAtSignal();
  endWithReader();
  // notes without a reader are no reason to end a server or a download
  process.stderr.on("error", () => {});
  process.exitCode = await execute(args, stop);
  // a lookup of a name, for one, or a connection that a proxy holds cannot be given up, and would keep the process
  const exit = (): void => {
    if (stop.aborted || process.stdout.writableLength === 0) process.exit();
  };
  setTimeout(exit, lingerMs).unref();
}

const lingerMs = 500;

/** Runs a command to its end, which `signal` brings about; gives the exit status. */
export async function execute(args: readonly string[], signal: AbortSignal): Promise<number> {
  const program = createProgram(signal);
  prepare(program);
  try {
    await program.parseAsync(args, { from: "user" });
    return exitCodes.ok.status;
  } catch (error) {
    return statusAfter(error, args[0] === "get");
  }
}

/** The first signal asks politely; the next one, whichever it is, ends the process as it always would. */
function stopAtSignal(): AbortSignal {
  const stop = new AbortController();
  const end = (outcome: "interrupted" | "terminated"): void => {
    process.off("SIGINT", interrupt).off("SIGTERM", terminate);
    stop.abort(new Stopped(outcome));
  };
  const interrupt = (): void => end("interrupted");
  const terminate = (): void => end("terminated");
  process.on("SIGINT", interrupt).on("SIGTERM", terminate);
  return stop.signal;
}

function prepare(command: Command): void {
  for (const inner of command.commands) prepare(inner);
  command.exitOverride().configureOutput({
    outputError: (text) => {
      const line = text
        .trim()
        .replace(/^error: /, "")
        .replaceAll("\n", " ");
      note(`sluice: ${line}; see \`sluice help\``);
    },
  });
}

function statusAfter(error: unknown, takesOutput: boolean): number {
  if (error instanceof CommanderError)
    return error.exitCode === 0 ? exitCodes.ok.status : exitCodes.usage.status;
  const { outcome, line } = describeFailure(error, takesOutput);
  note(`sluice: ${line}`);
  return exitStatus(outcome);
}
