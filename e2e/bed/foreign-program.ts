import { execFile, spawnSync } from "node:child_process";
import { homedir } from "node:os";

/** Programs that read and send files, and the package of Debian that has each. */
const packages = {
  curl: "curl",
  wget: "wget",
  aria2c: "aria2",
  rclone: "rclone",
  ffmpeg: "ffmpeg",
  ffprobe: "ffmpeg",
  sh: "dash",
} as const;

export type ForeignProgram = keyof typeof packages;

/** How a program ended. */
export interface Ended {
  /** Exit code; -1 when a signal ended it. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Whether a program is on the PATH. One that is not there is named, with the package that has it. */
export function hasForeign(name: ForeignProgram): boolean {
  const isThere = spawnSync(name, ["--help"], { stdio: "ignore" }).error === undefined;
  if (!isThere) console.log(`no ${name}: it is not tried (apt-get install ${packages[name]})`);
  return isThere;
}

/** Runs a program in a folder, without settings of the user and without a proxy. Never rejects. */
export function runForeign(
  command: string,
  args: readonly string[],
  { cwd, timeoutMs = 600_000 }: { readonly cwd: string; readonly timeoutMs?: number },
): Promise<Ended> {
  const { PATH = "" } = process.env;
  // pyenv finds the Python of the user by this one
  const env = { PATH, HOME: cwd, LANG: "C.UTF-8", PYENV_ROOT: `${homedir()}/.pyenv` };
  const options = { cwd, env, timeout: timeoutMs, maxBuffer: 64 * 1024 * 1024 };
  return new Promise((resolve) => {
    execFile(command, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, stdout, stderr: error?.code === "ENOENT" ? error.message : stderr });
    });
  });
}
