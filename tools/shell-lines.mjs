// Lines of a shell as a user pastes them. Their processes are ended, whatever becomes of them.
import { spawn } from "node:child_process";
import { once } from "node:events";

const deadlineMs = 300_000;
const children = new Set();

/** Settings of this process without those of Sluice and of its Node. */
export function plainSettings() {
  const { SLUICE_KEYS: _keys, SLUICE_TOKEN: _token, NODE_OPTIONS: _options, ...env } = process.env;
  return env;
}

/** Starts a line. Its processes are a group, so that all of them can be ended. */
export function start(line, cwd, env) {
  const child = spawn("sh", ["-c", line], { cwd, env, detached: true });
  children.add(child);
  child.output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => (child.output += text));
  child.ended = once(child, "close").then(([status]) => {
    children.delete(child);
    return status;
  });
  return child;
}

export async function stop(child) {
  try {
    process.kill(-child.pid, "SIGTERM");
  } catch {
    // it has ended
  }
  await child.ended;
}

/** Ends every line that still runs. */
export async function stopAll() {
  await Promise.all([...children].map(stop));
}

/** Runs a line to its end and gives what it printed. Throws an `Error` with that when it fails. */
export async function run(line, cwd, env) {
  const child = start(line, cwd, env);
  const late = setTimeout(() => void stop(child), deadlineMs);
  const status = await child.ended;
  clearTimeout(late);
  if (status !== 0) throw new Error(`${line}\n${child.output}`);
  return child.output;
}

/** Waits until a server that a line started answers at a loopback port. Default: 20 s. */
export async function untilListening(child, port, waitMs = 20_000) {
  for (let tries = 0; tries < waitMs / 100; tries++) {
    const answers = await fetch(`http://127.0.0.1:${port}/mcp`).then(
      () => true,
      () => false,
    );
    if (answers) return;
    if (!children.has(child)) throw new Error(`a server ended\n${child.output}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`nothing listens after ${waitMs / 1000} s\n${child.output}`);
}
