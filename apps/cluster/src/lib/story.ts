import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@modelcontextprotocol/client";
import { formatBytes } from "@sluice/cli/internal";
import { streamResource } from "@sluice/client";
import { verifyAuditFiles } from "@sluice/server/node";
import { callTool, connect, pastNginx } from "./outside-client.ts";
import type { Cluster } from "./start-cluster.ts";

/** What the story is told about. */
export interface StoryParts {
  readonly cluster: Cluster;
  /** A large file of the bucket, with its digest. */
  readonly file: { readonly uri: string; readonly size: number; readonly sha256: string };
  readonly say: (line: string) => void;
}

/** Shows, through one address, what the processes share. Rejects at the first thing that is not as it must be. */
export async function tellStory({ cluster, file, say }: StoryParts): Promise<void> {
  const client = await connect(cluster);
  try {
    const { resources } = await client.request({ method: "resources/list", params: {} });
    say(`list: ${resources.map(({ uri }) => uri).join(", ")}`);
    const scene = { client, cluster, file, say };
    await downloadFromAll(scene);
    await redeemOnce(scene);
    await revoke(scene);
    await restartAll(scene);
  } finally {
    await client.close();
  }
  await checkTrails(cluster, say);
}

type Say = StoryParts["say"];

interface Scene extends StoryParts {
  readonly client: Client;
}

/** The same URL, at each of the processes. */
async function downloadFromAll({ client, cluster, file, say }: Scene): Promise<void> {
  const url = await callTool(client, "make_link", { uri: file.uri });
  for (const { name, port } of cluster.processes) {
    const response = await fetch(pastNginx(url, port), bearer(cluster));
    const digest = createHash("sha256");
    for await (const chunk of response.body ?? []) digest.update(chunk);
    ensure(digest.digest("hex") === file.sha256, `${name} sent other bytes`);
  }
  const names = cluster.processes.map(({ name }) => name).join(", ");
  say(`download: ${formatBytes(file.size)} from each of ${names} with one URL, SHA-256 is right`);
}

async function redeemOnce({ client, cluster, file, say }: Scene): Promise<void> {
  const url = await callTool(client, "make_link", { uri: file.uri, once: true });
  const tries = Array.from({ length: 5 }, () => cluster.processes).flat();
  const statuses = await Promise.all(tries.map(({ port }) => statusOf(url, port, cluster)));
  const served = statuses.filter((status) => status === 200).length;
  const refused = statuses.filter((status) => status === 404).length;
  ensure(served === 1 && refused === tries.length - 1, `single use: ${statuses.join()}`);
  say(`single use: of ${tries.length} tries at once, at all processes, one was served`);
}

async function revoke({ client, cluster, file, say }: Scene): Promise<void> {
  const url = await callTool(client, "make_link", { uri: file.uri });
  const ask = () => Promise.all(cluster.processes.map(({ port }) => statusOf(url, port, cluster)));
  const before = await ask();
  await callTool(client, "revoke_links", {});
  // clocks of processes may differ by 5 s: what is made within that time is revoked as well
  await sleep(6_000);
  const after = await ask();
  ensure(
    before.every((status) => status === 200) && after.every((status) => status === 404),
    "revoke",
  );
  say(`revoke: a URL that every process served is refused by every process`);
}

/** Replaces a process at each quarter of a download. */
async function restartAll({ client, cluster, file, say }: Scene): Promise<void> {
  const { body } = await streamResource(client, file.uri, { maxStreamBytes: 2 ** 40 });
  const digest = createHash("sha256");
  const waiting = [...cluster.processes];
  let bytes = 0;
  for await (const chunk of body) {
    digest.update(chunk);
    bytes += chunk.byteLength;
    const replaced = cluster.processes.length - waiting.length;
    if (bytes * (cluster.processes.length + 1) < file.size * (replaced + 1)) continue;
    const next = waiting.shift();
    await next?.restart();
  }
  ensure(digest.digest("hex") === file.sha256, "the download during the restarts has other bytes");
  const names = cluster.processes.map(({ name }) => name).join(", ");
  say(`rolling restart: ${names} were replaced during one download, SHA-256 is right`);
}

async function checkTrails({ processes }: Cluster, say: Say): Promise<void> {
  for (const { name, trail } of processes) {
    const { findings, lines } = await verifyAuditFiles([trail]);
    ensure(findings.length === 0, `the audit trail of ${name}: ${findings[0]?.message}`);
    say(`audit: the trail of ${name} has ${lines} lines, none changed`);
  }
}

async function statusOf(url: string, port: number, cluster: Cluster): Promise<number> {
  const response = await fetch(pastNginx(url, port), bearer(cluster));
  await response.body?.cancel();
  return response.status;
}

function bearer({ token }: Cluster): RequestInit {
  return { headers: { authorization: `Bearer ${token}` } };
}

function ensure(holds: boolean, what: string): void {
  if (!holds) throw new Error(`it does not hold: ${what}`);
}
