import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { streamResource } from "@sluice/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { runHere } from "../../../packages/cli/test/run-here.ts";
import { connect, type SdkName } from "../../bed/clients.ts";
import { bytesOf } from "../../bed/content.ts";
import { connectSocket } from "../../bed/websocket.ts";
import { connectHttp } from "../base/http-client.ts";
import { Fault, type Revision } from "../base/message.ts";
import { streamHttp } from "./client.ts";
import { clientCapabilities, errors, resource } from "./examples.ts";
import { startLiteralServer, type Mode, type ServerFault } from "./server.ts";

const content = bytesOf(300_000, "literal server");
const modes: readonly Mode[] = ["direct", 302, 307, "downloadUrl"];
const token = "session-token";

const clients: readonly { readonly revision: Revision; readonly sdk: SdkName }[] = [
  { revision: "2025-11-25", sdk: "SDK v1" },
  { revision: "2025-11-25", sdk: "SDK v2, legacy" },
  { revision: "2025-11-25", sdk: "SDK v2, modern" },
  { revision: "2026-07-28", sdk: "SDK v2, modern" },
];

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "sluice-literal-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

describe.each(clients)("streamResource with $sdk at a server of the text, $revision", (client) => {
  const { revision, sdk } = client;

  test.each(modes)("takes and verifies the bytes, %s", async (mode) => {
    await using server = await startLiteralServer({ revision, mode, content, token });
    const peer = await connect(sdk, server.url, { token });
    const stream = await streamResource(peer, resource.uri);
    const { path, size } = await stream.saveTo(`${await folder()}/`);
    expect((await readFile(path)).equals(content)).toBe(true);
    expect([size, path.endsWith(resource.name)]).toEqual([content.length, true]);
    await peer.close();
  });

  test("knows the numbers of the text's errors", async () => {
    await using server = await startLiteralServer({ revision, mode: "direct", content });
    const peer = await connect(sdk, server.url);
    const asked = async (uri: string) =>
      streamResource(peer, uri).catch((error: unknown) => (error as { code?: unknown }).code);
    expect(await asked(errors.notSupported.data.uri)).toBe("unsupported");
    expect(await asked("file:///missing")).toBe("not_found");
    await peer.close();
  });

  test("sends the session's bearer to the server's own origin", async () => {
    await using server = await startLiteralServer({
      revision,
      mode: "downloadUrl",
      content,
      token,
    });
    const peer = await connect(sdk, server.url, { token });
    await (await streamResource(peer, resource.uri)).body.cancel();
    expect(server.downloads.map(({ authorization }) => authorization)).toEqual([`Bearer ${token}`]);
    await peer.close();
  });

  test.each<[ServerFault, Mode]>([
    ["no-uri", "direct"],
    ["other-uri", "direct"],
    ["short", "direct"],
    ["redirect-without-uri", 302],
    ["redirect-without-uri", 307],
    ["no-uri", "downloadUrl"],
    ["other-uri", "downloadUrl"],
    ["short", "downloadUrl"],
    ["other-size", "downloadUrl"],
    ["foreign-url", "downloadUrl"],
  ])("publishes no file of a server with the fault %s, %s", async (fault, mode) => {
    await using server = await startLiteralServer({ revision, mode, content, fault });
    const peer = await connect(sdk, server.url);
    const target = await folder();
    const options = { timeouts: { pauseScale: 0 } };
    const saving = streamResource(peer, resource.uri, options).then((s) => s.saveTo(`${target}/`));
    const code = await saving.catch((error: unknown) => (error as { code?: unknown }).code);
    expect(["protocol", "untrusted", "interrupted", "corrupt"]).toContain(code);
    const left = await readdir(target);
    expect(left.filter((name) => name.endsWith(".pptx"))).toEqual([]);
    await peer.close();
  });
});

describe.each(["2025-11-25", "2026-07-28"] as const)("%s", (revision) => {
  test.each(modes)("sluice get takes the bytes of a server of the text, %s", async (mode) => {
    await using server = await startLiteralServer({ revision, mode, content, token });
    const target = await folder();
    const env = { SLUICE_TOKEN: token };
    const run = await runHere(["get", server.url, resource.uri], { env, cwd: target });
    expect([run.status, run.stderr]).toEqual([0, expect.any(String)]);
    expect((await readFile(join(target, resource.name))).equals(content)).toBe(true);
  });

  test("a client over WebSocket takes the bytes of a server of the text beside the socket", async () => {
    await using server = await startLiteralServer({ revision, mode: "downloadUrl", content });
    const sdk = revision === "2025-11-25" ? "SDK v2, legacy" : "SDK v2, modern";
    const downloads = new URL(server.url).origin;
    const peer = await connectSocket(sdk, server.socketUrl, { downloads });
    const stream = await streamResource(peer, resource.uri);
    const { path } = await stream.saveTo(`${await folder()}/`);
    expect((await readFile(path)).equals(content)).toBe(true);
    await peer.close();
  });

  // the literal client itself is one that sees faults
  test.each<[ServerFault, Mode]>([
    ["no-uri", "direct"],
    ["other-uri", "direct"],
    ["short", "direct"],
    ["redirect-without-uri", 302],
    ["other-id", "downloadUrl"],
    ["foreign-url", "downloadUrl"],
    ["other-size", "downloadUrl"],
    ["no-uri", "downloadUrl"],
  ])("the literal client sees the fault %s, %s, and none without it", async (fault, mode) => {
    for (const made of [fault, undefined]) {
      await using server = await startLiteralServer({ revision, mode, content, fault: made });
      await using peer = await connectHttp(server.url, {
        revision,
        capabilities: clientCapabilities,
      });
      const outcome = await streamHttp(peer, resource.uri, 2 ** 30).then(
        ({ bytes }) => bytes.equals(content),
        (error: unknown) => (error instanceof Fault ? "fault" : "broken"),
      );
      expect(outcome).toBe(made === undefined ? true : made === "short" ? "broken" : "fault");
    }
  });
});
