import { realpath } from "node:fs/promises";

/** The words before `serve` in the command that starts this program again from any folder. */
export interface StartCommand {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * The command that starts `file`, the running program: `npx` where that finds the package from any folder, which it does in its
 * own cache and among global packages, and the file itself where it lies in a project or a clone. `packages` are wanted beside it.
 */
export function startCommandOf(
  file: string | undefined,
  packages: readonly string[] = [],
): StartCommand {
  if (file !== undefined && !isFoundByName(file)) return { command: "node", args: [file] };
  const beside = ["sluice", ...packages].flatMap((name) => ["-p", name]);
  return { command: "npx", args: ["-y", ...(packages.length === 0 ? [] : beside), "sluice"] };
}

/** Path of the running program, behind the links that package managers make. */
export async function runningFile(): Promise<string | undefined> {
  const [, file] = process.argv;
  return file === undefined ? undefined : realpath(file).catch(() => file);
}

function isFoundByName(file: string): boolean {
  return caches.test(file) || globals.test(file);
}

/** Where npx, `pnpm dlx` and `yarn dlx` keep what they run once. */
const caches = /[/\\](?:_npx|dlx)[/\\]/;

/** Where npm, pnpm, Yarn and Bun keep global packages. */
const globals =
  /[/\\](?:(?:lib|npm)[/\\]node_modules|global[/\\](?:[\w.]+[/\\])?(?:node_modules|\.pnpm))[/\\]/;
