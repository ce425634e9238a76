import { execute } from "../src/commands/run.ts";
import type { Run } from "./sluice.ts";

export interface RunHereOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/**
 * Runs `sluice` to its end within this process, where a process of its own would show nothing more.
 * One at a time: folder, environment and both outputs are lent to it.
 */
export async function runHere(
  args: readonly string[],
  { env = {}, cwd = process.cwd() }: RunHereOptions = {},
): Promise<Run> {
  const stdout = takeOver(process.stdout);
  const stderr = takeOver(process.stderr);
  const folder = process.cwd();
  const lent = { SLUICE_TOKEN: undefined, ...env };
  const before = Object.keys(lent).map((name) => [name, process.env[name]] as const);
  setEnvironment(Object.entries(lent));
  process.chdir(cwd);
  try {
    const status = await execute(args, new AbortController().signal);
    return { status, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    process.chdir(folder);
    setEnvironment(before);
    stdout.giveBack();
    stderr.giveBack();
  }
}

/** Keeps what is written to a stream of this process, instead of writing it. */
function takeOver(stream: NodeJS.WriteStream) {
  const own = Object.getOwnPropertyDescriptor(stream, "write");
  let written = "";
  stream.write = (chunk: string | Uint8Array) => {
    written += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
    return true;
  };
  return {
    text: () => written,
    giveBack() {
      if (own) Object.defineProperty(stream, "write", own);
      else Reflect.deleteProperty(stream, "write");
    },
  };
}

function setEnvironment(values: readonly (readonly [string, string | undefined])[]): void {
  for (const [name, value] of values)
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
}
