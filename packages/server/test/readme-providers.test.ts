import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { formatKey, generateKey, SluiceError } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test } from "vitest";
import { talkTo } from "./talking.ts";

test("the guide's providers run", async () => {
  const sluice = createSluice({
    storage: createMemoryBackend({}),
    baseUri: "files://acme/",
    endpoint: "http://127.0.0.1:3000/mcp",
    keys: formatKey(generateKey()),
    redirectOrigins: ["https://cdn.example.com"],
    onWarning: () => {},
  });
  const folder = mkdtempSync(join(tmpdir(), "sluice-logs-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const logFile = join(folder, "app.log");
  writeFileSync(logFile, "one\nERROR two\nthree\n");
  const inner = createServer((request, response) => {
    response.end(`inner ${request.url}`);
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void inner.close());
  await once(inner, "listening");
  const innerUrl = `http://127.0.0.1:${(inner.address() as AddressInfo).port}`;
  const orders = [
    { id: 1, year: "2026", total: 12.5 },
    { id: 2, year: "2025", total: 8 },
  ];
  const database = {
    async *orders(year: string) {
      yield* orders.filter((order) => order.year === year);
    },
    countChanges: async () => 7,
  };
  const signDownload = async (id: string) => `https://cdn.example.com/${id}?signature=abc`;

  // #region generator
  sluice.provide("reports://acme/orders-{year}.csv", {
    title: "Orders of a year",
    mimeType: "text/csv",
    async *open({ variables }) {
      yield "id,total\n";
      for await (const { id, total } of database.orders(variables.year!)) yield `${id},${total}\n`;
    },
  });
  // #endregion

  // #region process
  sluice.provide("logs://acme/app.log.gz", () => spawn("gzip", ["--stdout", logFile]));
  // #endregion

  // #region response
  sluice.provide("intranet://acme/{+page}", ({ variables, signal }) => {
    // the client chooses the page: encoded, it cannot lead to another host or to a query
    const path = variables.page!.split("/").map(encodeURIComponent).join("/");
    return fetch(`${innerUrl}/${path}`, { signal, redirect: "error" });
  });
  // #endregion

  // #region url
  sluice.provide("videos://acme/{id}", async ({ variables }) => ({
    url: await signDownload(variables.id!),
    expiresAt: Date.now() + 300_000,
  }));
  // #endregion

  // #region rewind
  const exported = new TextEncoder().encode(JSON.stringify(orders));
  sluice.provide("exports://acme/orders.dat", {
    open: () => exported,
    describe: async () => ({
      size: exported.byteLength,
      version: String(await database.countChanges()),
    }),
    rewind: true,
  });
  // #endregion

  // #region refuse
  sluice.provide("payroll://acme/{month}.csv", {
    access: (principal) => (principal?.scopes?.includes("payroll") ? "allow" : "hide"),
    open({ variables }) {
      if (!/^\d{4}-\d{2}$/.test(variables.month!))
        throw new SluiceError("not_found", "payroll: there is no such month");
      return "name,amount\n";
    },
  });
  // #endregion

  const talk = talkTo(sluice);
  const ask = async (uri: string): Promise<any> => {
    const { slot, message } = await talk("modern", "resources/stream", { params: { uri } });
    return (slot as any).reply ?? message.error!.data.reason;
  };
  const bytesOf = async (uri: string): Promise<Buffer> => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of (await ask(uri)).transfer.source.body) chunks.push(chunk);
    return Buffer.concat(chunks);
  };
  expect(String(await bytesOf("reports://acme/orders-2026.csv"))).toBe("id,total\n1,12.5\n");
  const zipped = await bytesOf("logs://acme/app.log.gz");
  expect(gunzipSync(zipped).toString()).toBe("one\nERROR two\nthree\n");
  expect(String(await bytesOf("intranet://acme/a/b"))).toBe("inner /a/b");
  expect(await ask("videos://acme/7")).toMatchObject({ status: 302 });
  expect(String(await bytesOf("exports://acme/orders.dat"))).toBe(JSON.stringify(orders));
  expect(await ask("payroll://acme/2026-11.csv")).toBe("not_found");
});
