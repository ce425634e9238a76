// @module-tag slow
// The hosts that people have: unmodified clients of the official SDKs, and programs that stand in front of a server. In each a
// file goes out by a link, and one comes in.
import { mkdir, mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { hasBrowser } from "../bed/browser.ts";
import { bytesOf, sha256 } from "../bed/content.ts";
import { hasForeign, runForeign } from "../bed/foreign-program.ts";
import { startHostSite } from "../bed/host-site.ts";
import {
  connectBehindGateway,
  connectLegacyHost,
  connectModernHost,
  proxies,
  type Host,
  type ToolAnswer,
} from "../bed/hosts.ts";
import { baseUri, type Site } from "../bed/site.ts";
import { startUser, type User } from "../bed/user.ts";

const hasCurl = hasForeign("curl");
if (!hasBrowser)
  console.log("no Chromium: no user opens an upload page (apt-get install chromium)");
const isDeep = process.env["SLUICE_DEEP"] !== undefined;

const photo = bytesOf((isDeep ? 8 : 0.5) * 1024 * 1024, "photo");
/** What tools say of it. A folder may have one of its name already. */
const kept = {
  name: expect.stringMatching(/^photo( \(\d\))?\.bin$/),
  size: photo.length,
  sha256: sha256(photo),
};
/** The file that goes out, and how often. */
const [size, times] = isDeep ? [1024 ** 3, 5] : [2 * 1024 * 1024, 1];
if (!isDeep)
  console.log("hosts: 1 GiB files, five times each, and the page in each are for SLUICE_DEEP=1");

let folder: string;
let site: Site;
let withoutSessions: Site;
let user: User | undefined;
const hosts = new Map<string, Host>();
const visits: Promise<void>[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-hosts-"));
  await writeFile(join(folder, "photo.bin"), photo);
  for (const name of ["root", "inbox"]) await mkdir(join(folder, name));
  await writeLarge(join(folder, "root", "report.bin"));
  const root = join(folder, "root");
  [site, withoutSessions] = await Promise.all([
    startHostSite({ root, sessions: true }),
    startHostSite({ root }),
  ]);
  if (hasBrowser) user = await startUser();
  const connections = Object.entries(shapes).map(async ([name, { connect }]) => {
    hosts.set(name, await connect(visit));
  });
  await Promise.all(connections);
});

/** Opens a page for the user, and does not wait. */
function visit(url: string): void {
  const visited = user!.sendByPage(url, join(folder, "photo.bin"));
  visited.catch(() => {});
  visits.push(visited);
}

afterAll(async () => {
  for (const host of hosts.values()) await host[Symbol.asyncDispose]();
  await user?.[Symbol.asyncDispose]();
  await site?.[Symbol.asyncDispose]();
  await withoutSessions?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

/** Bytes without a pattern, however many. */
async function writeLarge(path: string): Promise<void> {
  const file = await open(path, "w");
  const part = 64 * 1024 * 1024;
  for (let start = 0; start < size; start += part)
    await file.write(bytesOf(Math.min(part, size - start), `report ${start}`));
  await file.close();
}

interface Shape {
  /** Of the resources. Default: that of a site. */
  readonly base?: string;
  /** The tool that takes a file. Default: that of a site. */
  readonly tool?: string;
  /** Whether the server can ask its user by a URL. */
  readonly isAsked?: boolean;
  readonly hasSession?: boolean;
  /** Its user opens the page of an answer; of the others they do so with SLUICE_DEEP=1. */
  readonly isVisited?: boolean;
  readonly connect: (openPage: (url: string) => void) => Promise<Host>;
}

/** A host of stdio behind a program; `opensPages`: the host declares that it opens URLs. */
const behind = (name: string, { opensPages = false, isAsked = false } = {}): Shape => ({
  isAsked,
  connect: (openPage) =>
    connectLegacyHost({
      target: { command: process.execPath, args: proxies[name]!(site.url), home: folder },
      ...(opensPages && { openPage }),
    }),
});

const serveOverStdio = () => ({
  command: process.execPath,
  args: [
    inject("programs")["packages/cli/src/main.ts"]!,
    "serve",
    join(folder, "root"),
    "--stdio",
    "--no-audit",
    "--uploads",
    join(folder, "inbox"),
  ],
  home: folder,
});

const shapes: Readonly<Record<string, Shape>> = {
  "2026-07-28, asks in forms and by URL": {
    isAsked: true,
    connect: (openPage) => connectModernHost({ target: withoutSessions.url, openPage }),
  },
  "2026-07-28, asks nothing": {
    connect: () => connectModernHost({ target: site.url }),
  },
  "2025-11-25 in a session, asks by URL": {
    isAsked: true,
    hasSession: true,
    connect: (openPage) => connectLegacyHost({ target: site.url, openPage }),
  },
  "2025-11-25 in a session, asks nothing": {
    hasSession: true,
    connect: () => connectLegacyHost({ target: site.url }),
  },
  "2025-11-25 without a session": {
    isVisited: true,
    connect: (openPage) => connectLegacyHost({ target: withoutSessions.url, openPage }),
  },
  "sluice serve --stdio, asks nothing": {
    base: "files://local/",
    tool: "save_file",
    connect: () => connectLegacyHost({ target: serveOverStdio() }),
  },
  ...Object.fromEntries(
    Object.keys(proxies)
      .filter((name) => isDeep || name !== "supergateway")
      .map((name) => [`behind ${name}, asks nothing`, behind(name)]),
  ),
  // it declares what the host behind it can, and passes no questions on
  "behind supergateway, asks by URL": behind("supergateway", { opensPages: true }),
  ...(isDeep && {
    "sluice serve --stdio in supergateway --stateful": {
      hasSession: true,
      base: "files://local/",
      tool: "save_file",
      connect: () => connectBehindGateway(serveOverStdio()),
    },
    "behind mcp-remote 0.1, asks by URL": behind("mcp-remote 0.1", {
      opensPages: true,
      isAsked: true,
    }),
    "behind mcp-remote 0.15, asks by URL": behind("mcp-remote 0.15", {
      opensPages: true,
      isAsked: true,
    }),
  }),
};

const names = Object.keys(shapes);
const askedNames = names.filter((name) => shapes[name]!.isAsked);
const otherNames = names.filter((name) => !shapes[name]!.isAsked);
const visitedNames = otherNames.filter((name) => isDeep || shapes[name]!.isVisited);

const textOf = ({ content }: ToolAnswer): string =>
  content.map(({ text }) => text ?? "").join("\n");

/** Calls a tool, which must not fail. */
async function call(name: string, tool: string, args: Record<string, unknown> = {}) {
  const answer = await hosts.get(name)!.callTool(tool, args);
  expect(answer.isError, textOf(answer)).toBeFalsy();
  return { ...answer, text: textOf(answer), data: { ...answer.structuredContent } };
}

const keep = (name: string, args: Record<string, unknown> = {}) =>
  call(name, shapes[name]!.tool ?? "keep_file", args);

/** Calls the tool that takes a file, in a host that can be asked nothing. */
async function askedFor(name: string) {
  const answer = await keep(name);
  expect(answer.data).toMatchObject({
    status: "upload_required",
    method: "PUT",
    max_bytes: expect.any(Number),
  });
  return answer;
}

async function runLine(line: string, cwd: string): Promise<void> {
  const { code, stderr } = await runForeign("sh", ["-c", line], { cwd });
  expect(code, `${line}\n${stderr}`).toBe(0);
}

test.each(names)("%s: has tools, and a session where such a host has one", async (name) => {
  const { hasSession = false, tool = "keep_file" } = shapes[name]!;
  const host = hosts.get(name)!;
  expect(host.sessionId !== undefined).toBe(hasSession);
  const tools = (await host.listTools()).map((each) => each.name);
  expect(tools).toEqual(
    expect.arrayContaining(["list_files", "read_file", "get_download_link", tool]),
  );
});

test.skipIf(!hasCurl).each(names)(
  "%s: a file goes out by the line that the answer gives",
  async (name) => {
    for (let time = 0; time < times; time++) {
      const uri = `${shapes[name]!.base ?? baseUri}report.bin`;
      const { text, data, content } = await call(name, "get_download_link", { uri });
      expect(data).toMatchObject({ name: "report.bin", size });
      expect(content.find(({ type }) => type === "resource_link")?.uri).toBe(data["download_url"]);
      const out = await mkdtemp(join(folder, "out-"));
      await runLine(/^curl .*$/m.exec(text)![0], out);
      await runLine(`cmp report.bin ${join(folder, "root/report.bin")}`, out);
      await rm(out, { recursive: true });
    }
  },
);

test.skipIf(!hasBrowser).each(askedNames)(
  "%s: a file comes in, when the user opens the page",
  async (name) => {
    expect((await keep(name)).data).toEqual(kept);
    await Promise.all(visits);
  },
);

test.skipIf(!hasCurl).each(otherNames)(
  "%s: a file comes in, when an agent runs the line of the answer",
  async (name) => {
    const { text, data } = await askedFor(name);
    expect(text).toContain(data["upload_id"]);
    expect(text).not.toMatch(/session|transport|elicit/i);
    await runLine(/curl .*?'[^']+'/.exec(text)![0].replace("FILE", "photo.bin"), folder);
    expect((await keep(name, { upload_id: data["upload_id"] })).data).toEqual(kept);
  },
);

test.skipIf(!hasBrowser).each(visitedNames)(
  "%s: a file comes in, when the user opens the page of the answer",
  async (name) => {
    const { text, data } = await askedFor(name);
    expect(text).toContain(data["page_url"]);
    await user!.sendByPage(data["page_url"] as string, join(folder, "photo.bin"));
    expect((await keep(name, { upload_id: data["upload_id"] })).data).toEqual(kept);
  },
);

test.each(otherNames)("%s: an upload id that is unknown says what to do next", async (name) => {
  const { tool = "keep_file" } = shapes[name]!;
  const answer = await hosts.get(name)!.callTool(tool, { upload_id: "A".repeat(32) });
  expect(answer.isError).toBe(true);
  expect(textOf(answer)).toMatch(/call the tool again without upload_id/);
});

test.each(isDeep ? otherNames : [])(
  "%s: the tool that is called before the file came waits, and asks again",
  async (name) => {
    const { data } = await askedFor(name);
    expect((await keep(name, { upload_id: data["upload_id"] })).data).toEqual(data);
  },
);
