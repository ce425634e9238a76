import { CommanderError, type Command } from "commander";
import { setServerRules } from "@sluice/core/internal/node";
import { exitCodes } from "../terminal/exit-code.ts";
import { joinHeaders } from "../server-calls/headers.ts";
import { describeFailure, exitStatus, Stopped } from "../terminal/failure.ts";
import { endWithReader, note } from "../terminal/print.ts";
import { commandLine } from "./program.ts";

/** Runs the command line and sets the exit status of the process. */
export async function runCommand(args: readonly string[]): Promise<void> {
  const stop = stopAtSignal();
  endWithReader();
  // notes without a reader must not end a server or a download
  process.stderr.on("error", () => {});
  // a process manager that holds one may count a late exit as a start that worked
  process.channel?.unref();
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
  const program = commandLine(signal);
  prepare(program);
  try {
    await program.parseAsync(joinHeaders(args), { from: "user" });
    return exitCodes.ok.status;
  } catch (error) {
    return statusAfter(error, args[0] === "get");
  } finally {
    setServerRules(undefined);
  }
}

/**
 * The first signal asks politely; the next one, whichever it is, ends the process at once. It exits by itself: what listens to
 * "exit", such as a bridge with a program, ends what it started.
 */
function stopAtSignal(): AbortSignal {
  const stop = new AbortController();
  for (const [signal, outcome] of Object.entries(endings))
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(exitStatus(outcome));
      stop.abort(new Stopped(outcome));
    });
  return stop.signal;
}

const endings = {
  SIGINT: "interrupted",
  SIGTERM: "terminated",
  SIGHUP: "terminated",
  SIGQUIT: "terminated",
} as const;

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
