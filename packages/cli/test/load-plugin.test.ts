import { expect, test } from "vitest";
import { loadPlugin } from "../src/storages/open-storage.ts";

test("a plugin that is missing is named with the command that installs it", async () => {
  const absent = "@sluice/storage-that-is-nowhere";
  const loading = loadPlugin(import(/* @vite-ignore */ absent), absent);
  await expect(loading).rejects.toThrow(TypeError);
  await expect(loading).rejects.toThrow(`npm install ${absent}`);
});

test("a plugin that is there and broken says what broke", async () => {
  const broken = Promise.reject(new SyntaxError("half a file"));
  await expect(loadPlugin(broken, "@sluice/storage-s3")).rejects.toThrow("half a file");
});
