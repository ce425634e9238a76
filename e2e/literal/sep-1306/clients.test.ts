import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { runHere } from "../../../packages/cli/test/run-here.ts";
import type { SdkName } from "../../bed/clients.ts";
import { bytesOf } from "../../bed/content.ts";
import { connectSender } from "../../bed/senders.ts";
import type { Revision } from "../base/message.ts";
import { request } from "./examples.ts";
import { startUploadServer, type UploadFault, type Uploaded } from "./server.ts";

const token = "session-token";
/** What begins like a JPEG. */
const sunset = Buffer.concat([
  Buffer.from("ffd8ffe000104a464946000101", "hex"),
  bytesOf(200_000, "jpeg"),
]);
const { uploadId } = request.uploadEndpoints.imageFile;

const clients: readonly { readonly revision: Revision; readonly sdk: SdkName }[] = [
  { revision: "2025-11-25", sdk: "SDK v1" },
  { revision: "2025-11-25", sdk: "SDK v2, legacy" },
  { revision: "2026-07-28", sdk: "SDK v2, modern" },
];

/** Section 5: what a client must send. */
function expectForm({ authorization, parts }: Uploaded): void {
  expect(authorization).toBe(`Bearer ${token}`);
  expect(parts).toHaveLength(1);
  const [{ head, bytes }] = parts as [Uploaded["parts"][number]];
  expect(head).toMatch(/content-disposition: *form-data;.* name="file"/i);
  expect(head).toMatch(/filename="sunset\.jpg"/);
  expect(head).toMatch(/content-type: *image\/jpeg/i);
  expect(bytes.equals(sunset)).toBe(true);
}

describe.each(clients)("$sdk with our sender at a server of the text, $revision", (client) => {
  const { revision, sdk } = client;
  const connect = (url: string) =>
    connectSender(sdk, url, {
      token,
      onFilesRequested: () => ({
        action: "accept",
        files: {
          imageFile: [{ blob: new Blob([sunset]), name: "sunset.jpg", mimeType: "image/jpeg" }],
        },
        values: { description: "A beautiful sunset over the ocean" },
      }),
    });

  test.each(["POST", "PUT"] as const)(
    "sends the form of the text by %s, and answers with its metadata",
    async (method) => {
      await using server = await startUploadServer({ revision, token, method });
      const peer = await connect(server.url);
      const { content } = await peer.callTool({ name: "analyze", arguments: {} });
      expect(content).toMatchObject([{ text: "the user chose accept" }]);
      expect(server.uploads.map((upload) => upload.method)).toEqual([method]);
      expectForm(server.uploads[0]!);
      expect(server.answers).toMatchObject([
        {
          action: "accept",
          content: {
            imageFile: {
              name: "sunset.jpg",
              size: sunset.length,
              mimeType: "image/jpeg",
              uploadId,
            },
            description: "A beautiful sunset over the ocean",
          },
        },
      ]);
      await peer.close();
    },
  );

  test.each<UploadFault>(["refuses-uploads", "foreign-endpoint", "no-endpoint"])(
    "claims no upload at a server with the fault %s",
    async (fault) => {
      await using server = await startUploadServer({ revision, token, fault });
      const peer = await connect(server.url);
      await peer.callTool({ name: "analyze", arguments: {} }).catch(() => {});
      expect(server.answers.filter(({ action }) => action === "accept")).toEqual([]);
      await peer.close();
    },
  );
});

test.each(["2025-11-25", "2026-07-28"] as const)(
  "sluice put sends a file to a tool of the text that asks, %s",
  async (revision) => {
    await using server = await startUploadServer({ revision, token });
    const folder = await mkdtemp(join(tmpdir(), "sluice-literal-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await writeFile(join(folder, "sunset.jpg"), sunset);
    const args = ["put", server.url, "sunset.jpg", "--tool", "analyze"];
    const run = await runHere(args, { env: { SLUICE_TOKEN: token }, cwd: folder });
    expect([run.status, run.stderr]).toEqual([0, expect.any(String)]);
    expectForm(server.uploads[0]!);
  },
);
