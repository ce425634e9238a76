import { createHash } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { formOf } from "./forms.ts";
import { alice, bearer, noise, png, startUploadServer } from "./upload-server.ts";

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

function formData(
  files: readonly (readonly [string, string, Uint8Array<ArrayBuffer>, string?])[],
): FormData {
  const form = new FormData();
  for (const [field, name, bytes, type] of files)
    form.append(field, new Blob([bytes], type === undefined ? {} : { type }), name);
  return form;
}

const post = (url: string, body: FormData, headers = {}): Promise<Response> =>
  fetch(url, { method: "POST", headers: { ...bearer("alice"), ...headers }, body });

test("files of a form are files of the slot, with their names and types", async () => {
  const server = await startUploadServer();
  const { url, uploadId } = await server.slot({ maxFiles: 2 });
  const [picture, other] = [png(300_000), noise(500_000)];
  const form = formData([
    ["file", 'süß "1".png', picture, "image/png"],
    ["file", "../../b.bin", other],
  ]);
  const answer = await post(url, form);
  expect(answer.status).toBe(201);
  const files = [
    { name: "süß _1_.png", size: 300_000, mimeType: "image/png", sha256: sha256(picture) },
    { name: "b.bin", size: 500_000, mimeType: "application/octet-stream", sha256: sha256(other) },
  ];
  expect(await answer.json()).toEqual({ uploadId, status: "completed", files });
  const [record] = server.records.filter(({ outcome }) => outcome === "complete");
  expect(record?.bytes).toBeGreaterThan(800_000);
  const confirmed = await server.uploads.confirm(alice, uploadId, files);
  const bodies = await Promise.all(confirmed.map(async (file) => (await file.open()).body));
  const read = await Promise.all(bodies.map((body) => new Response(body as never).arrayBuffer()));
  expect(read.map((bytes) => sha256(new Uint8Array(bytes)))).toEqual(
    files.map((file) => file.sha256),
  );
});

test.for([
  ["a charset before the boundary", 'charset=utf-8; boundary="b-1"'],
  ["a charset after the boundary", "boundary=b-1; charset=UTF-8"],
  ["a parameter that nothing knows", 'boundary=b-1; x="; boundary=y"'],
])("a form may have %s", async ([, parameters]) => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  const headers = { ...bearer("alice"), "content-type": `multipart/form-data; ${parameters}` };
  const body = formOf("b-1", [{ fileName: "a.txt", type: "text/plain", content: "hello" }]);
  const answer = await fetch(url, { method: "POST", headers, body });
  expect(answer.status).toBe(201);
  expect(await answer.json()).toMatchObject({ name: "a.txt", size: 5, mimeType: "text/plain" });
});

const file = 'Content-Disposition: form-data; name="file"; filename';
test.for<[string, string, object]>([
  ["lines that end in LF", `--XbX\n${file}="a.txt"\n\nhello\n--XbX--\n`, { name: "a.txt" }],
  ["blanks", `--XbX  \t\r\n${file}="a.txt"\r\n\r\nhello\r\n--XbX--  \r\n`, { name: "a.txt" }],
  [
    "an empty Content-Encoding",
    `--XbX\r\n${file}="a.txt"\r\nContent-Encoding: \r\n\r\nhello\r\n--XbX--\r\n`,
    { name: "a.txt" },
  ],
  [
    "a name of RFC 2047",
    `--XbX\r\n${file}="=?UTF-8?B?w7xiZXIucGRm?="\r\n\r\nhello\r\n--XbX--\r\n`,
    { name: "über.pdf" },
  ],
  [
    "a Windows path",
    `--XbX\r\n${file}="D:\\dh\\res\\f.jpg"\r\n\r\nhello\r\n--XbX--\r\n`,
    { name: "f.jpg" },
  ],
])("a form of the field with %s is a file", async ([, body, expected]) => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  const headers = { ...bearer("alice"), "content-type": "multipart/form-data; boundary=XbX" };
  const answer = await fetch(url, { method: "POST", headers, body });
  expect(await answer.json()).toMatchObject({ size: 5, ...expected });
  expect(answer.status).toBe(201);
});

test("a refusal says what is missing or accepted", async () => {
  const server = await startUploadServer();
  const { url } = await server.slot({ accept: ["image/png", ".csv"] });
  const headers = { ...bearer("alice"), "content-type": "multipart/form-data; boundary=XbX" };
  const send = async (body: string) => {
    const answer = await fetch(url, { method: "POST", headers, body });
    return { status: answer.status, ...((await answer.json()) as object) };
  };
  const form = `--XbX\r\n${file}="a.txt"\r\n\r\nhello\r\n--XbX`;
  expect(await send(`${form}\r\n`)).toMatchObject({
    status: 400,
    detail: "the closing boundary is missing: a form ends with --XbX--",
  });
  expect(await send(`${form}--\r\n`)).toMatchObject({
    status: 415,
    detail: expect.stringContaining("accepted: image/png, .csv"),
  });
});

test("a part that is a range of a file is refused", async () => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  const headers = { ...bearer("alice"), "content-type": "multipart/form-data; boundary=b-1" };
  const body = formOf("b-1", [{ content: "hello" }]).replace(
    "\r\n\r\n",
    "\r\nContent-Range: bytes 0-4/10\r\n\r\n",
  );
  const answer = await fetch(url, { method: "POST", headers, body });
  expect(answer.status).toBe(400);
  expect(await server.files()).toEqual([]);
});

test("a large form whose parts are hashed in a thread is the same", { tags: "slow" }, async () => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  const bytes = noise(17_000_000);
  const answer = await post(url, formData([["file", "a.bin", bytes]]));
  expect(await answer.json()).toMatchObject({ size: bytes.length, sha256: sha256(bytes) });
});

test("a form of which one file is refused leaves none", async () => {
  const server = await startUploadServer();
  const slot = { maxFiles: 3, maxBytes: 200_000, accept: ["image/png"] };
  const good = ["file", "a.png", png(100_000), "image/png"] as const;
  for (const [bad, status] of [
    [["file", "b.png", noise(100_000), "image/png"], 415],
    [["file", "b.png", png(200_001), "image/png"], 413],
    [["other", "b.png", png(1_000), "image/png"], 400],
  ] as const) {
    const { url } = await server.slot(slot);
    expect((await post(url, formData([good, bad]))).status).toBe(status);
    await expect.poll(() => server.files()).toEqual([]);
    const retried = await post(url, formData([good]));
    expect(retried.status).toBe(201);
    await server.uploads.discard(((await retried.json()) as { uploadId: string }).uploadId);
  }
  const { url } = await server.slot({ maxFiles: 1 });
  expect((await post(url, formData([good, good]))).status).toBe(413);
  await expect.poll(() => server.files()).toEqual([]);
});

test("a file that is refused while the form still arrives leaves no unhandled rejection", async () => {
  const server = await startUploadServer();
  const { url } = await server.slot({ maxFiles: 2, accept: ["image/png"] });
  const text = formOf("b-1", [{ content: "no picture" }, { content: "another" }]);
  const middle = text.lastIndexOf("another");
  const bytes = Buffer.from(text);
  const body = (async function* () {
    yield bytes.subarray(0, middle);
    // time for the end of the first file
    await new Promise((resolve) => setTimeout(resolve, 50));
    yield bytes.subarray(middle);
  })();
  const unhandled: unknown[] = [];
  const hear = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", hear);
  onTestFinished(() => void process.off("unhandledRejection", hear));
  const headers = { ...bearer("alice"), "content-type": "multipart/form-data; boundary=b-1" };
  const answer = await fetch(url, { method: "POST", headers, body, duplex: "half" });
  expect(answer.status).toBe(415);
  expect(unhandled).toEqual([]);
  await expect.poll(() => server.files()).toEqual([]);
});

test("anything but a form of files is refused, and nothing is kept", async () => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  const fields = new FormData();
  fields.append("file", "text");
  expect((await post(url, fields)).status).toBe(400);
  expect((await post(url, new FormData())).status).toBe(400);
  const raw = (method: string, type: string, body: string, headers = {}): Promise<Response> =>
    fetch(url, { method, headers: { ...bearer("alice"), "content-type": type, ...headers }, body });
  const form = formOf("xyz", [{ content: "hello" }]);
  const type = "multipart/form-data; boundary=xyz";
  expect((await raw("PUT", type, form)).status).toBe(415);
  expect((await raw("POST", type, form, { "upload-complete": "?1" })).status).toBe(415);
  expect((await raw("POST", "multipart/mixed; boundary=xyz", form)).status).toBe(400);
  expect((await raw("POST", type, form.slice(0, -9))).status).toBe(400);
  await expect.poll(() => server.files()).toEqual([]);
  expect((await raw("POST", type, form)).status).toBe(201);
});

test("a form of many files leaves no listeners behind", { tags: "slow" }, async () => {
  const server = await startUploadServer();
  const warnings: Error[] = [];
  const hear = (warning: Error): void => void warnings.push(warning);
  process.on("warning", hear);
  onTestFinished(() => void process.off("warning", hear));
  const files = Array.from({ length: 40 }, (_, n) => ["file", `${n}.bin`, noise(10)] as const);
  const { url, uploadId } = await server.slot({ maxFiles: 40 });
  expect((await post(url, formData(files))).status).toBe(201);
  expect(await server.uploads.received(alice, uploadId)).toHaveLength(40);
  // warnings are emitted in a task of their own
  await new Promise((resolve) => setImmediate(resolve));
  expect(warnings).toEqual([]);
});
