import { buffer } from "node:stream/consumers";
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { sendFiles } from "../../client/src/upload/send/send-files.ts";
import { sendTimeouts, type Sender } from "../../client/src/upload/send/sender.ts";
import {
  ClientSession,
  acceptTarget,
  type UploadTarget,
} from "../../client/src/upload/upload-target.ts";
import type { SentFile } from "../../client/src/upload/send/outgoing-file.ts";
import type { Slot } from "../src/index.ts";
import { bytesSource, senders } from "../../client/test/sending.ts";
import { alice, noise, startUploadServer, type UploadServer } from "./upload-server.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const big = noise(2 ** 20 + 333_333);
const small = noise(1_000);
const cuts = deep ? 200 : 5;
const large = deep ? noise(24 * 2 ** 20) : big;

/** Sends files to a slot of the real endpoint, as Alice. */
function send(
  { url }: UploadServer,
  slot: Slot,
  wire: UploadTarget["wire"],
  sender: Sender,
  files: readonly Buffer[],
  token = "alice",
): Promise<readonly SentFile[]> {
  const session = new ClientSession(new URL(url), () => token);
  const trust = { session, trustedOrigins: [] };
  const claim = { url: slot.url, method: slot.method, wire, auth: "bound", sessionBound: false };
  const sources = files.map((bytes, at) => bytesSource(bytes, `ä ${at}.bin`));
  const target = acceptTarget(claim as Parameters<typeof acceptTarget>[0], trust);
  const { signal } = new AbortController();
  const timeouts = { ...sendTimeouts, pauseScale: 0.001 };
  return sendFiles({ sources, target, signal, onSent() {} }, { sender, trust, timeouts });
}

/** Confirms what was sent, and gives the bytes that can then be read. */
async function received(
  { uploads }: UploadServer,
  { uploadId }: Slot,
  sent: readonly SentFile[],
): Promise<Buffer[]> {
  const files = await uploads.confirm(alice, uploadId, sent);
  return Promise.all(
    sent.map(async ({ name }) => {
      const { body } = await files.find((file) => file.name === name)!.open();
      return buffer(body);
    }),
  );
}

/** Breaks the connection of every `PATCH` after this many bytes, until `times` are over. */
function cutSteps({ server }: UploadServer, bytes: number, times: number): () => number {
  let cut = 0;
  server.on("request", ({ method, socket }: IncomingMessage) => {
    if (method !== "PATCH" || cut >= times) return;
    cut++;
    const before = socket.bytesRead;
    const watch = (): void => {
      if (socket.destroyed) return;
      if (socket.bytesRead - before >= bytes) socket.resetAndDestroy();
      else setImmediate(watch);
    };
    watch();
  });
  return () => cut;
}

describe.each(Object.entries(senders))("over %s", (_name, sender) => {
  test.each(["multipart", "raw", "resumable"] as const)(
    "files in the %s form are confirmed, and read byte for byte",
    async (wire) => {
      const server = await startUploadServer();
      const slot = await server.slot({ maxFiles: 3 });
      const files = [big, small, Buffer.alloc(0)];
      const sent = await send(server, slot, wire, sender, files);
      const came = await received(server, slot, sent);
      for (const [at, bytes] of files.entries()) expect(came[at]!.equals(bytes)).toBe(true);
      expect(server.errors).toEqual([]);
    },
  );

  test(
    "a file whose connection breaks again and again arrives byte for byte",
    { tags: "slow" },
    async () => {
      const server = await startUploadServer();
      const slot = await server.slot();
      const done = cutSteps(server, Math.ceil(large.length / cuts), cuts - 1);
      const sent = await send(server, slot, "resumable", sender, [large]);
      // a connection may carry more than it should before it breaks
      expect(done()).toBeGreaterThan(cuts / 3);
      const [came] = await received(server, slot, sent);
      expect(came!.equals(large)).toBe(true);
    },
  );

  test.each([
    ["too large", { maxBytes: 1_000_000 }, "alice", /^(?:too_large)$/],
    ["of another type", { accept: ["image/png"] }, "alice", /^unsupported$/],
    ["from another principal", {}, "bob", /^(?:not_found|permission_denied|unauthenticated)$/],
  ] as const)("a refusal of the endpoint is a refusal here: %s", async (_, terms, token, code) => {
    for (const wire of ["multipart", "raw", "resumable"] as const) {
      const server = await startUploadServer();
      await expect(
        send(server, await server.slot(terms), wire, sender, [big], token),
        wire,
      ).rejects.toMatchObject({ code: expect.stringMatching(code) });
      expect(await server.files()).toEqual([]);
    }
  });
});
