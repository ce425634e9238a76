import { spawnSync } from "node:child_process";

const advice = {
  "redis-server": "install Redis (apt-get install redis-server, brew install redis)",
  nginx: "install nginx (apt-get install nginx, brew install nginx)",
};

/** Throws where a program from outside is missing, with what to do: before anything is downloaded or started. */
export function ensurePrograms(): void {
  for (const [program, what] of Object.entries(advice))
    if (spawnSync(program, ["-v"], { stdio: "ignore" }).error)
      throw new Error(`there is no ${program} to start: ${what}`);
}
