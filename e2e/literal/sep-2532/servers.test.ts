import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectSocket } from "../base/channel-client.ts";
import { connectHttp } from "../base/http-client.ts";
import { revisions } from "../base/message.ts";
import {
  content,
  startDemo,
  startOwn,
  startReadme,
  startServe,
  startSocket,
  type OurServer,
} from "../servers.ts";
import { Refused, streamHttp, streamSocket } from "./client.ts";
import { clientCapabilities } from "./examples.ts";

const limit = clientCapabilities.resourceStreaming.maxStreamSize;
const own = (sessions: boolean, users: boolean) =>
  (["direct", "redirect", "downloadUrl"] as const).map((delivery) => ({
    name: `a server ${sessions ? "with" : "without"} sessions, ${users ? "of users" : "of the anonymous"}, ${delivery}`,
    start: () => startOwn({ sessions, users, delivery }),
  }));

const servers: readonly { readonly name: string; readonly start: () => Promise<OurServer> }[] = [
  { name: "the README's server", start: startReadme },
  { name: "the demo server", start: startDemo },
  { name: "the demo server with download URLs", start: () => startDemo("downloadUrl") },
  { name: "sluice serve", start: startServe },
  { name: "sluice serve with a token", start: () => startServe("correct-horse-battery-staple") },
  ...own(true, true),
  ...own(true, false),
  ...own(false, true),
  ...own(false, false),
];

/** The numbers of the text, and those of a revision that forbids them (docs/protocol/streaming.md). */
const notFound = { "2025-11-25": -32002, "2026-07-28": -32602 };

describe.each(servers)("$name", ({ start }) => {
  let server: OurServer;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  describe.each(revisions)("%s", (revision) => {
    const connect = () =>
      connectHttp(server.url, { revision, capabilities: clientCapabilities, token: server.token });

    test("a client of the text gets the bytes", async () => {
      await using peer = await connect();
      const { bytes } = await streamHttp(peer, server.uri, limit);
      expect(bytes.equals(content)).toBe(true);
    });

    test(
      "a client of the text hears as JSON that there is no such resource",
      { tags: "slow" },
      async () => {
        await using peer = await connect();
        const asked = streamHttp(peer, `${server.uri}.missing`, limit);
        const error = await asked.catch((fault: unknown) => fault);
        expect(error).toBeInstanceOf(Refused);
        expect((error as Refused).error.code).toBe(notFound[revision]);
      },
    );
  });
});

describe.each([
  { name: "a server over WebSocket", start: startSocket },
  { name: "sluice serve --ws", start: startServe },
])("$name", ({ start }) => {
  let server: OurServer;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  describe.each(revisions)("%s", (revision) => {
    const connect = () => {
      const { token } = server;
      const url = server.url.replace(/^http/, "ws");
      return connectSocket(url, { revision, capabilities: clientCapabilities, token });
    };

    test("a client of the text gets the bytes beside the socket", async () => {
      await using peer = await connect();
      const { bytes } = await streamSocket(peer, server.uri, limit, server.downloads);
      expect(bytes.equals(content)).toBe(true);
    });

    test("not found has the number that it has over HTTP", { tags: "slow" }, async () => {
      await using peer = await connect();
      const asked = streamSocket(peer, `${server.uri}.missing`, limit, server.downloads);
      const error = await asked.catch((fault: unknown) => fault);
      expect(error).toBeInstanceOf(Refused);
      expect((error as Refused).error.code).toBe(notFound[revision]);
    });
  });
});
