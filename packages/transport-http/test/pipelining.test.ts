import { once } from "node:events";
import { connect } from "node:net";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { post, streaming } from "./call.ts";
import { serve } from "./serve.ts";

const uri = "files://demo/a.bin";
const storage = createMemoryBackend({ "a.bin": new Uint8Array(6 << 20), "b.txt": "b" });

test("answers queued behind another end with the connection, and give their places back", async () => {
  const { url, records } = await serve({
    sluice: { storage, grant: { use: "window" }, limits: { perProcess: 4 } },
  });
  const capabilities = streaming({ prefer: ["downloadUrl"] });
  const json = await post(url, "modern", uri, { capabilities });
  const { result } = (await json.json()) as { result: { downloadUrl: string } };
  const { pathname, hostname, port } = new URL(result.downloadUrl);

  const socket = connect(Number(port), hostname);
  socket.write(`GET ${pathname} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(4));
  await once(socket, "readable");
  // all four are being answered: none is left for others
  await expect.poll(async () => (await fetch(result.downloadUrl)).status).toBe(503);
  socket.destroy();
  const downloads = () => records.filter(({ mode, outcome }) => mode && outcome === "aborted");
  await expect.poll(downloads).toHaveLength(4);
  expect((await fetch(result.downloadUrl)).status).toBe(200);
});
