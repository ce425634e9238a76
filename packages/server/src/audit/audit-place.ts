import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

/**
 * Where the trail of a server lies that has a name and no place: in the folder for what programs keep
 * of their runs, `$XDG_STATE_HOME` (XDG Base Directory Specification) or `%LOCALAPPDATA%`.
 */
export function auditPathOf(name: string, env: NodeJS.ProcessEnv = process.env): string {
  return join(stateFolder(env), "sluice", "audit", `${encodeURIComponent(name)}.log`);
}

function stateFolder({ XDG_STATE_HOME: xdg, LOCALAPPDATA: local }: NodeJS.ProcessEnv): string {
  // the specification has relative paths ignored
  if (xdg !== undefined && isAbsolute(xdg)) return xdg;
  if (process.platform === "win32" && local !== undefined && isAbsolute(local)) return local;
  return join(homedir(), ".local", "state");
}
