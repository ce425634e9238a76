/**
 * A client that asks for URLs that it made up, as fast as it is answered. Started with its settings as JSON; at each
 * message it goes to work, and then tells its parent how often each status came.
 */
import { Agent, request } from "node:http";

/** What the parent sets. */
export interface FloodSettings {
  /** What the made-up part of each URL is put behind. */
  readonly prefix: string;
  readonly method: "GET" | "POST";
  readonly count: number;
  readonly connections: number;
}

const settings = JSON.parse(process.argv[2]!) as FloodSettings;
const { prefix, method, count, connections } = settings;
const agent = new Agent({ keepAlive: true, maxSockets: connections });

function ask(n: number): Promise<number> {
  const token = `${n}`.padStart(8, "0").padEnd(200, "Ab_9");
  return new Promise((resolve, reject) => {
    const headers = method === "POST" ? { "content-length": 4 } : {};
    request(`${prefix}${token}`, { method, agent, headers }, (response) => {
      response
        .resume()
        .on("end", () => resolve(response.statusCode!))
        .on("error", reject);
    })
      .on("error", reject)
      .end(method === "POST" ? "evil" : undefined);
  });
}

async function flood(): Promise<void> {
  const statuses: Record<string, number> = {};
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) {
      const status = await ask(next++).catch(() => "broken");
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: connections }, work));
  // what the server closes meanwhile is not used again
  agent.destroy();
  process.send!(statuses);
}

process.on("message", () => void flood());
process.on("disconnect", () => process.exit(0));
process.send!("ready");
