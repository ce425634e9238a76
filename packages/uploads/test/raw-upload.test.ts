import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { alice, bearer, noise, startUploadServer } from "./upload-server.ts";

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

test("a file that was sent raw and confirmed can be read, byte for byte", async () => {
  const { slot, uploads } = await startUploadServer();
  const { url, uploadId } = slot();
  const bytes = noise(3_000_000);
  const answer = await fetch(url, {
    method: "PUT",
    headers: { ...bearer("alice"), "content-disposition": 'attachment; filename="a.bin"' },
    body: bytes,
  });
  expect(await answer.json()).toMatchObject({
    uploadId,
    status: "completed",
    name: "a.bin",
    size: 3_000_000,
    sha256: sha256(bytes),
  });
  expect(answer.status).toBe(201);
  const [file] = await uploads.confirm(alice, uploadId, [
    { name: "a.bin", size: 3_000_000, mimeType: "application/octet-stream", sha256: sha256(bytes) },
  ]);
  const { body } = await file!.open();
  expect(Buffer.from(await new Response(body).arrayBuffer()).equals(bytes)).toBe(true);
});
