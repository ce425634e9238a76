import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { asking, askingInResults, uploadPlace } from "./asking.ts";
import { callTool, hostOf, makeFolders } from "./filing.ts";
import { serveUploads } from "./serve-uploads.ts";

const content = Buffer.alloc(100_000, "a file of the user / ");
const sha256 = createHash("sha256").update(content).digest("hex");
const capabilitiesKey = "io.modelcontextprotocol/clientCapabilities";

type Revision = "legacy" | "modern";

/** A host whose user answers forms with `answers`, one after the other, and what it was asked. */
function typingHost(revision: Revision, answers: readonly object[]) {
  const messages: string[] = [];
  const host = new Client(
    { name: "host", version: "1" },
    {
      capabilities: { elicitation: { form: {} } },
      ...(revision === "modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {}),
    },
  );
  host.setRequestHandler("elicitation/create", ({ params }) => {
    messages.push(params.message);
    return (answers[messages.length - 1] ?? { action: "cancel" }) as never;
  });
  return { host, messages };
}

const typed = (path: string) => ({ action: "accept", content: { path } });

/** A server of a revision whose tool asks for a file, a host of another, and what came to the server. */
async function scene(host: Revision, server: Revision, answers: readonly object[]) {
  const { send, outside } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  writeFileSync(join(outside, "secret"), "secret");
  const place = await uploadPlace();
  const inResults = server === "modern" ? await askingInResults(place.url) : undefined;
  const options = { sendFrom: [send], trustedOrigins: [place.url.origin] };
  const user = typingHost(host, answers);
  const client = await hostOf(inResults?.url ?? asking(place.url, "call"), options, user.host);
  return { client, got: place.got, messages: user.messages, metas: inResults?.metas ?? [] };
}

for (const host of ["legacy", "modern"] as const)
  for (const server of ["legacy", "modern"] as const) {
    test(`${host} host, ${server} server: a tool that the host calls gets the file whose path the user types`, async () => {
      const { client, got, messages, metas } = await scene(host, server, [typed("my.txt")]);
      const said = await callTool(client, "take");
      expect(said.text).toContain(sha256);
      expect(messages).toEqual([expect.stringMatching(/asks for a file: "Your file".*Which one/)]);
      expect(got).toHaveLength(1);
      expect(got[0]).toContain(content.toString());
      // the server gets its own state back, and was told that it may ask
      if (server === "legacy") return;
      expect(said.text).toMatch(/^s1 /);
      expect(metas[0]![capabilitiesKey].elicitation).toMatchObject({ form: {}, binary: {} });
    });

    test(`${host} host, ${server} server: a user who declines sends nothing`, async () => {
      const { client, got } = await scene(host, server, [{ action: "decline" }]);
      expect((await callTool(client, "take")).text).toContain("decline");
      expect(got).toEqual([]);
    });
  }

for (const revision of ["legacy", "modern"] as const)
  test(`${revision} host: a tool of \`sluice serve\` that asks gets the file whose path the user types`, async () => {
    const { send, save, outside } = makeFolders();
    writeFileSync(join(send, "my.txt"), content);
    const url = await serveUploads(outside, save);
    const { host, messages } = typingHost(revision, [typed("my.txt")]);
    const client = await hostOf(url, { sendFrom: [send] }, host);
    expect((await callTool(client, "save_file")).isError).toBe(false);
    expect(messages).toEqual([expect.stringContaining("Which file shall be saved")]);
    expect(readFileSync(join(save, "my.txt")).equals(content)).toBe(true);
  });

for (const server of ["legacy", "modern"] as const) {
  test(`modern host, ${server} server: a path that leads to no file is asked for again`, async () => {
    const answers = [typed("absent.txt"), typed("my.txt")];
    const { client, got, messages } = await scene("modern", server, answers);
    expect((await callTool(client, "take")).text).toContain(sha256);
    expect(messages).toEqual([
      expect.stringMatching(/^server asks/),
      expect.stringMatching(/^there is no such file\. server asks/),
    ]);
    expect(got).toHaveLength(1);
  });

  test(`modern host, ${server} server: no typed path leads out of the folder, and three are enough`, async () => {
    const answers = ["../outside/secret", "/etc/passwd", "../outside/secret", "my.txt"].map(typed);
    const { client, got, messages } = await scene("modern", server, answers);
    const { text } = await callTool(client, "take");
    expect(text).toContain("cancel");
    // a server hears nothing of the disk
    expect(text).not.toMatch(/outside|passwd|no such/);
    expect(messages).toHaveLength(3);
    expect(got).toEqual([]);
  });
}

test("a host of 2026-07-28 without forms is not said to give files, and is told of send_file when asked", async () => {
  const { send } = makeFolders();
  const place = await uploadPlace();
  const { url, metas } = await askingInResults(place.url);
  const host = new Client(
    { name: "host", version: "1" },
    {
      capabilities: { elicitation: { url: {} } },
      versionNegotiation: { mode: { pin: "2026-07-28" } },
    },
  );
  const client = await hostOf(url, { sendFrom: [send] }, host);
  const said = await callTool(client, "take");
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("send_file") });
  expect(metas[0]![capabilitiesKey].elicitation).toEqual({ url: {} });
  expect(place.got).toEqual([]);
});

test("a host of 2025-11-25 that opens web pages only has its model told of send_file", async () => {
  const { send } = makeFolders();
  const place = await uploadPlace();
  const capabilities = { elicitation: { url: {} } };
  const host = new Client({ name: "host", version: "1" }, { capabilities });
  const client = await hostOf(asking(place.url, "call"), { sendFrom: [send] }, host);
  expect((await callTool(client, "take")).text).toContain("send_file");
  expect(place.got).toEqual([]);
});
