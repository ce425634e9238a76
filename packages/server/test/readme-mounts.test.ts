import { formatKey, generateKey, type Principal } from "@sluice/core";
import { createSluice, type Sluice } from "@sluice/server";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { alice, as } from "./redeeming.ts";
import { talkTo } from "./talking.ts";

const endpoint = "https://mcp.example.com/mcp";
const keys = formatKey(generateKey());
const memory = (key: string, content: string): StorageBackend =>
  createMemoryBackend({ [key]: content });

/** The caller that the header names. */
const principal = ({ header }: { header: (name: string) => string | undefined }) => {
  const [issuer, subject, clientId] = (header("authorization") ?? "").split(" ");
  return subject === undefined ? undefined : { issuer: issuer!, subject, clientId: clientId! };
};

const uris = async (sluice: Sluice, who: Principal): Promise<string[]> => {
  const { message } = await talkTo(sluice)("modern", "resources/list", { headers: as(who) });
  return message.result.resources.map(({ uri }: { uri: string }) => uri);
};

test("the guide's server with two mounts runs", async () => {
  const handbook = memory("rules.md", "# Rules");
  const archive = memory("2019.csv", "a,b");
  const isAuditor = (user: Principal | undefined) => user?.subject === "auditor";

  // #region mounts
  const sluice = createSluice({
    mounts: [
      { baseUri: "docs://acme/", storage: handbook },
      {
        baseUri: "archive://acme/",
        storage: archive,
        access: (user) => (isAuditor(user) ? "allow" : "hide"),
        delivery: "redirect",
        redirectOrigins: ["https://acme.s3.eu-west-1.amazonaws.com"],
        limits: { streams: { perPrincipal: 2, perProcess: 32 } },
      },
    ],
    endpoint,
    keys,
    principal,
  });
  // #endregion

  expect(sluice.baseUris).toEqual(["docs://acme/", "archive://acme/"]);
  expect(await uris(sluice, alice)).toEqual(["docs://acme/rules.md"]);
  expect(await uris(sluice, { ...alice, subject: "auditor" })).toEqual([
    "docs://acme/rules.md",
    "archive://acme/2019.csv",
  ]);
});

test("the guide's server with a drive for each user runs", async () => {
  const handbook = memory("rules.md", "# Rules");
  const openDrive = (subject: string): StorageBackend | undefined =>
    subject === "guest" ? undefined : memory(`${subject}.txt`, subject);

  // #region drives
  const drives = new Map<string, StorageBackend | undefined>();

  function driveOf(user: Principal | undefined): StorageBackend | undefined {
    if (!user) return undefined;
    const { issuer, subject } = user;
    const name = JSON.stringify([issuer, subject]);
    if (!drives.has(name)) drives.set(name, openDrive(subject));
    return drives.get(name);
  }

  const sluice = createSluice({
    mounts: [
      { baseUri: "docs://acme/", storage: handbook },
      { baseUri: "drive://me/", storage: driveOf },
    ],
    endpoint,
    keys,
    principal,
  });
  // #endregion

  expect(await uris(sluice, alice)).toEqual(["docs://acme/rules.md", "drive://me/alice.txt"]);
  expect(await uris(sluice, { ...alice, subject: "guest" })).toEqual(["docs://acme/rules.md"]);
  // the same backend each time: its retries and watches are shared
  expect(driveOf(alice)).toBe(driveOf({ ...alice, sessionId: "another" }));
});
