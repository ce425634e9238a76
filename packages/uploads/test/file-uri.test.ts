import { createKeyRing, formatKey, generateKey } from "@sluice/core";
import { expect, test, vi } from "vitest";
import { createFileUris } from "../src/files-sep-2631/file-uri.ts";
import { createPlainSluice } from "./asking.ts";

test("a file URI carries its seal if nothing is stored, and works the same", async () => {
  const host = createPlainSluice({ keys: createKeyRing(formatKey(generateKey())) }).host;
  const handle = { kind: "upload", uploadId: "u", expiresAt: Date.now() + 60_000 } as const;
  const holder = { principal: { issuer: "i", subject: "s", clientId: "c" }, share: undefined };
  expect(host.tokens).toBe("sealed");
  const uris = createFileUris(host);
  const uri = await uris.format(handle, holder);
  expect(uri).toMatch(/^mcp-file:\/\/127\.0\.0\.1:9\/v1\.[a-z0-9]{2}\.[\w-]{100,}$/);
  expect(await uris.parse(uri, holder.principal)).toEqual(handle);
  await expect(uris.parse(uri, undefined)).rejects.toMatchObject({ code: "invalid_argument" });
});

test("a file URI that is stored is short, is over after its time, and opens for its principal only", async () => {
  const { host } = createPlainSluice();
  const uris = createFileUris(host);
  const holder = { principal: { issuer: "i", subject: "s", clientId: "c" }, share: "s" };
  const handle = { kind: "upload", uploadId: "u", expiresAt: Date.now() + 60_000 } as const;
  const uri = await uris.format(handle, holder);
  expect(uri).toMatch(/^mcp-file:\/\/127\.0\.0\.1:9\/[\w-]{32}$/);
  expect(await uris.parse(uri, holder.principal)).toEqual(handle);
  const altered = `${uri.slice(0, -1)}${uri.endsWith("A") ? "B" : "A"}`;
  for (const [wrong, principal] of [
    [uri, undefined],
    [altered, holder.principal],
  ] as const)
    await expect(uris.parse(wrong, principal)).rejects.toMatchObject({ code: "invalid_argument" });
  vi.spyOn(Date, "now").mockReturnValue(handle.expiresAt);
  const late = uris.parse(uri, holder.principal).finally(() => vi.restoreAllMocks());
  await expect(late).rejects.toMatchObject({ code: "expired" });
});
