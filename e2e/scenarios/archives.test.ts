// @module-tag slow
/**
 * Folders as archives over real HTTP, read by programs that are not ours.
 * @module
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { archiveProvider } from "@sluice/archive";
import { streamResource } from "@sluice/client";
import { describe, expect, test } from "vitest";
import { mountVolume } from "../../packages/storage-fs/test/volume.ts";
import { connect } from "../bed/clients.ts";
import { startProgram } from "../bed/program.ts";
import type { ServeSettings } from "../bed/programs/serve.ts";
import { call, send, streamRequest } from "../bed/raw.ts";
import { startSite, type Site } from "../bed/site.ts";
import type { Memory } from "../bed/watch.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const mib = 2 ** 20;

const hasUnzip = spawnSync("unzip", ["-v"]).status === 0;
if (!hasUnzip) console.log("archives: there is no unzip here, so no ZIP archive is extracted");

const files = {
  "plan.txt": "the plan",
  "photos/a b.jpg": "a picture",
  "photos/2026/ü.jpg": "another one",
  "photos/secret.jpg": "not for everyone",
};

const accounts = { "alice-token": { subject: "alice" }, "bob-token": { subject: "bob" } };

async function startArchiving(): Promise<Site> {
  const site = await startSite({
    files,
    accounts,
    sluice: {
      access: (principal, uri) =>
        uri.includes("secret") && principal?.subject !== "alice" ? "hide" : "allow",
    },
  });
  const { sluice } = site;
  // #region provide
  const photos = archiveProvider(sluice.host, { of: "files://site/", format: "zip" });
  sluice.provide("archives://site/{+folder}.zip", photos);
  const everything = archiveProvider(sluice.host, { of: "files://site/", format: "tar" });
  sluice.provide("archives://site/all.tar", everything);
  // #endregion
  return site;
}

describe("a folder as an archive", () => {
  test.runIf(hasUnzip)("has what its caller may list, and unzip reads it", async () => {
    await using site = await startArchiving();
    for (const [who, names] of [
      ["alice", ["2026/ü.jpg", "a b.jpg", "secret.jpg"]],
      ["bob", ["2026/ü.jpg", "a b.jpg"]],
    ] as const) {
      const client = await connect("SDK v2, modern", site.url, { token: `${who}-token` });
      const stream = await streamResource(client, "archives://site/photos.zip");
      expect(stream).toMatchObject({ mimeType: "application/zip", name: "photos.zip" });
      const saved = await stream.saveTo(join(site.target, `${who}.zip`));
      const folder = join(site.target, who);
      mkdirSync(folder);
      execFileSync("unzip", ["-q", saved.path, "-d", folder]);
      const found = execFileSync("find", [".", "-type", "f"], { cwd: folder, encoding: "utf8" });
      expect(found.trim().split("\n").toSorted()).toEqual(
        names.map((name) => `./${name}`).toSorted(),
      );
      expect(readFileSync(join(folder, "2026/ü.jpg"), "utf8")).toBe("another one");
      await client.close();
    }
  });

  test("comes by a download URL as well, for its caller alone, and a tar reads it", async () => {
    await using site = await startArchiving();
    const asked = { token: "bob-token", streaming: { prefer: ["downloadUrl"] as const } };
    const uri = "archives://site/all.tar";
    const { message } = await call(site.url, "resources/stream", { uri }, asked);
    const url = message?.result?.["downloadUrl"] as string;
    const { status, bytes, headers } = await send("GET", url, {
      headers: { authorization: "Bearer bob-token" },
    });
    expect(status).toBe(200);
    expect(headers["accept-ranges"]).toBe("none");
    const path = join(site.target, "all.tar");
    writeFileSync(path, bytes);
    const listed = execFileSync("tar", ["-tf", path], { encoding: "utf8" });
    expect(listed).toContain("photos/a b.jpg");
    expect(listed).not.toContain("secret");
    const asAlice = { headers: { authorization: "Bearer alice-token" } };
    expect((await send("GET", url, asAlice)).status).toBe(404);
  });

  test("has the files of a mounted volume under the names of its links", async () => {
    await using site = await startArchiving();
    mkdirSync(join(site.root, "config"));
    await mountVolume(join(site.root, "config"), "..2024_01_31", {
      "app.conf": "a=1",
      "tls/b": "b",
    });
    const client = await connect("SDK v2, modern", site.url, { token: "bob-token" });
    const stream = await streamResource(client, "archives://site/all.tar");
    const path = join(site.target, "mounted.tar");
    await stream.saveTo(path);
    const listed = execFileSync("tar", ["-tf", path], { encoding: "utf8" }).split("\n");
    expect(listed.filter((name) => name.includes("config"))).toEqual([
      "config/app.conf",
      "config/tls/b",
    ]);
  });

  test("does not exist for a caller that may see nothing in it", async () => {
    await using site = await startArchiving();
    for (const uri of ["archives://site/nothing.zip", "archives://site/photos/secret.jpg.zip"]) {
      const asked = { token: "bob-token", streaming: {} };
      const { message } = await call(site.url, "resources/stream", { uri }, asked);
      expect(message?.error?.data?.reason).toBe("not_found");
    }
  });
});

const count = deep ? 100_000 : 300;

test(
  `${count} files begin with the first page of the list, and take little memory`,
  async () => {
    const settings: ServeSettings = { numbered: count };
    await using server = await startProgram<{ url: string }>("serve", settings);
    const { url } = server.hello;
    // code that is compiled and buffers that are pooled belong to the idle state
    await call(url, "resources/stream", { uri: "archives://site/all.zip" }, { streaming: {} });
    const listing = performance.now();
    await call(url, "resources/list", {}, {});
    const began = performance.now();
    const idle = await server.ask<Memory>("settled memory");
    const answer = await fetch(url, streamRequest("archives://site/all.zip"));
    const started = performance.now();
    let received = 0;
    for await (const chunk of answer.body!) received += chunk.byteLength;
    const busy = await server.ask<Memory>("memory");
    const grown = (busy.peak - idle.now) / mib;
    process.stdout.write(
      `archive of ${count} files: ${(received / mib).toFixed(1)} MiB, server +${grown.toFixed(1)} MiB; ` +
        `one page of the list ${(began - listing).toFixed(0)} ms, first byte of the answer ${(started - began).toFixed(0)} ms\n`,
    );
    expect(received).toBeGreaterThan(count * 100);
    expect(grown).toBeLessThanOrEqual(64);
  },
  deep ? 900_000 : 60_000,
);
