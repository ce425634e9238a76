// @module-tag slow
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { afterAll, expect, test, vi } from "vitest";
import { connectOfficial } from "../bed/clients.ts";
import { startProgram, type Program } from "../bed/program.ts";
import type { Memory } from "../bed/watch.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const perClient = 100;
const clients = isDeep ? 100 : 2;
const count = clients * perClient;
const mebibyte = 1024 * 1024;

const closing: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));

/** Half of the clients are of the legacy era, with a session each. */
async function subscribe(url: string, n: number, hear: (uri: string) => void): Promise<Client> {
  const isModern = n % 2 === 0;
  const client = await connectOfficial(isModern ? "SDK v2, modern" : "SDK v2, legacy", url);
  client.setNotificationHandler("notifications/resources/updated", ({ params }) =>
    hear(params.uri),
  );
  const uris = Array.from({ length: perClient }, (_, i) => `files://site/${n * perClient + i}`);
  if (isModern) {
    const { honoredFilter } = await client.listen({ resourceSubscriptions: uris });
    if (honoredFilter.resourceSubscriptions?.length !== perClient)
      throw new Error("not every subscription was honoured");
  } else for (const uri of uris) await client.subscribeResource({ uri });
  return client;
}

test(
  `${count} subscriptions cost a server little memory while nothing happens, and each is served`,
  { timeout: 300_000 },
  async () => {
    const settings = { numbered: count, sessions: true };
    const server: Program<{ url: string; root: string }> = await startProgram("serve", settings);
    closing.push(async () => server[Symbol.asyncDispose]());
    const settled = async (): Promise<number> =>
      (await server.ask<Memory>("settled memory")).now / mebibyte;
    // the first clients bring what every process needs once
    const heard = new Set<string>();
    const hear = (uri: string): void => void heard.add(uri);
    const first = [
      await subscribe(server.hello.url, 0, hear),
      await subscribe(server.hello.url, 1, hear),
    ];
    const before = await settled();
    const others: Client[] = [];
    for (let n = 2; n < clients; n++) others.push(await subscribe(server.hello.url, n, hear));
    // idle: what the work of subscribing freed goes back to the system in the background
    await vi.waitFor(
      async () => {
        const grownMiB = (await settled()) - before;
        console.info(
          `${count} subscriptions of ${clients} clients: memory +${grownMiB.toFixed(1)} MiB`,
        );
        expect(grownMiB).toBeLessThan(isDeep ? 64 : 32);
      },
      { timeout: 20_000, interval: 500 },
    );

    const changed = Array.from({ length: clients }, (_, n) => n * perClient);
    let content = 1;
    await vi.waitFor(
      async () => {
        for (const n of changed)
          await writeFile(join(server.hello.root, String(n)), `${content++}`);
        expect([...heard].toSorted()).toEqual(changed.map((n) => `files://site/${n}`).toSorted());
      },
      { timeout: 20_000, interval: 200 },
    );

    for (const client of [...first, ...others]) await client.close();
    const leftMiB = (await settled()) - before;
    console.info(`after the clients went: memory +${leftMiB.toFixed(1)} MiB`);
  },
);
