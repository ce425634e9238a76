// Pictures and sound for models. A further format is a line of the table.
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { createTooled } from "./tooled.ts";

const latin = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "latin1"));
const png = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

const formats: Readonly<Record<string, readonly [bytes: string, type: string, mimeType: string]>> =
  {
    "a.png": [png, "image", "image/png"],
    "a.jpg": ["\xff\xd8\xff\xe0\0\x10JFIF\0", "image", "image/jpeg"],
    "a.gif": ["GIF89a\x01\0\x01\0", "image", "image/gif"],
    "a.webp": ["RIFF\x24\0\0\0WEBPVP8 ", "image", "image/webp"],
    "a.wav": ["RIFF\x24\0\0\0WAVEfmt ", "audio", "audio/wav"],
    "a.mp3": ["ID3\x04\0\0\0\0\0\0", "audio", "audio/mpeg"],
    "frames.mp3": ["\xff\xfb\x90\x64\0\0\0\0", "audio", "audio/mpeg"],
    "a.ogg": ["OggS\0\x02\0\0", "audio", "audio/ogg"],
    "a.flac": ["fLaC\0\0\0\x22", "audio", "audio/flac"],
    "a.m4a": ["\0\0\0\x20ftypM4A \0\0", "audio", "audio/mp4"],
    "a.aac": ["\xff\xf1\x50\x80\0\0\0\0", "audio", "audio/aac"],
    // by its bytes, whatever its name says: hosts refuse a picture of another type than the one that is told
    "png.jpg": [png, "image", "image/png"],
  };

test.each(Object.entries(formats))("read_file gives %s as content", async (name, expected) => {
  const [bytes, type, mimeType] = expected;
  const storage = createMemoryBackend({ [name]: latin(bytes) });
  const { content, structuredContent } = await createTooled({ storage }).call("read_file", {
    uri: `files://demo/${name}`,
  });
  const data = Buffer.from(bytes, "latin1").toString("base64");
  expect(content[1]).toEqual({ type, data, mimeType });
  // the link beside it
  expect([content[0].type, content[2].type]).toEqual(["text", "resource_link"]);
  expect(content[0].text).toContain(structuredContent.download_url);
  expect(JSON.stringify(structuredContent)).not.toContain(data);
});

const largest = 2_949_120;

test.each([
  [64 * 1024, true],
  [64 * 1024 + 1, true],
  [largest, true],
  [largest + 1, false],
])("a picture of %i bytes is given whole: %s", async (size, isGiven) => {
  const bytes = new Uint8Array(size);
  bytes.set(latin(png));
  bytes[size - 1] = 7;
  const { call, records } = createTooled({ storage: createMemoryBackend({ "a.png": bytes }) });
  const { content } = await call("read_file", { uri: "files://demo/a.png" });
  expect(content.map(({ type }: { type: string }) => type)).toEqual(
    isGiven ? ["text", "image", "resource_link"] : ["text", "resource_link"],
  );
  if (!isGiven) return;
  expect(Buffer.from(content[1].data, "base64").equals(bytes)).toBe(true);
  expect(content[1].data.length).toBeLessThanOrEqual(3.75 * 2 ** 20);
  expect(records.find(({ action }) => action === "read")).toMatchObject({ bytes: size });
});

test.each([
  ["a part that was asked for", "a.png", png, { range: "bytes 0-3" }],
  ["the end", "a.png", png, { range: "bytes 4-" }],
  ["bytes of another kind", "a.png", "\0\x01\x02", {}],
  ["a picture by a name that says otherwise", "a.zip", png, {}],
  ["a picture that no host takes", "a.bmp", "BM\0\0\0\0", {}],
] as const)("%s is not content for a model", async (_what, name, bytes, args) => {
  const storage = createMemoryBackend({ [name]: latin(bytes) });
  const { content } = await createTooled({ storage }).call("read_file", {
    uri: `files://demo/${name}`,
    ...args,
  });
  expect(content.map(({ type }: { type: string }) => type)).toEqual(["text", "resource_link"]);
});

test("a picture that is made on demand is given, also where its size is not known", async () => {
  const { call, sluice } = createTooled({ storage: createMemoryBackend() });
  const bytes = latin(png + "x".repeat(100_000));
  sluice.provide("chart://sales", { open: async () => bytes, mimeType: "image/png" });
  const { content } = await call("read_file", { uri: "chart://sales" });
  expect(Buffer.from(content[1].data, "base64").equals(bytes)).toBe(true);
});

test("without links the picture stands beside the resource_link to its resource", async () => {
  const storage = createMemoryBackend({ "a.png": latin(png) });
  const { links: _links, ...options } = { links: undefined, storage };
  const { call } = createTooled({ ...options, tools: { link: false } });
  const uri = "files://demo/a.png";
  const { content } = await call("read_file", { uri });
  expect(content.map(({ type }: { type: string }) => type)).toEqual([
    "text",
    "image",
    "resource_link",
  ]);
  expect(content[2].uri).toBe(uri);
});
