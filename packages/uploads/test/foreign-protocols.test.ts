import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { alice, bearer, startUploadServer } from "./upload-server.ts";

// Clients of other upload protocols: what they begin does not count as a file, and they are told so.

/** Sends a request as it is written, for what `fetch` does not send. */
async function sendLines(url: string, lines: readonly string[], body = ""): Promise<string> {
  const { hostname, port, host, pathname } = new URL(url);
  const [first = "", ...headers] = lines;
  const [method, query = ""] = first.split(" ");
  const socket = connect(Number(port), hostname);
  const head = [`${method} ${pathname}${query} HTTP/1.1`, `Host: ${host}`, "Connection: close"];
  socket.write([...head, "Authorization: Bearer alice", ...headers, "", body].join("\r\n"));
  let answer = "";
  socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
  await once(socket, "close");
  return answer;
}

const rows: readonly (readonly [what: string, lines: readonly string[], body?: string])[] = [
  ["a POST with nothing", ["POST"]],
  ["a PUT with nothing", ["PUT"]],
  ["an Upload-Length without a body", ["POST", "Upload-Length: 1048576"]],
  [
    "the creation of a tus upload without its version",
    ["POST", "Upload-Length: 1048576", "Content-Length: 0"],
  ],
  [
    "an Upload-Length of more than comes",
    ["PUT", "Upload-Length: 100", "Content-Length: 5"],
    "hello",
  ],
  [
    "an Upload-Length of more than comes in chunks",
    ["PUT", "Upload-Length: 100", "Transfer-Encoding: chunked"],
    "5\r\nhello\r\n0\r\n\r\n",
  ],
  ["a malformed Upload-Length", ["PUT", "Upload-Length: five", "Content-Length: 5"], "hello"],
  ["a malformed Upload-Complete", ["PUT", "Upload-Complete: true", "Content-Length: 5"], "hello"],
  ["a place in a file", ["PUT", "Upload-Offset: 0", "Content-Length: 5"], "hello"],
  ["a part of S3", ["PUT ?partNumber=1&uploadId=x", "Content-Length: 5"], "hello"],
  ["a block of Azure", ["PUT ?comp=block&blockid=QQ==", "Content-Length: 5"], "hello"],
  ["a part of a form", ["POST ?resumableChunkNumber=1", "Content-Length: 5"], "hello"],
  [
    "a body in chunks of AWS",
    ["PUT", "X-Amz-Decoded-Content-Length: 3", "Content-Length: 5"],
    "hello",
  ],
  ["a malformed Upload-Incomplete", ["POST", "Upload-Incomplete: 1", "Content-Length: 5"], "hello"],
  ["a first part of draft-01", ["POST", "Upload-Incomplete: ?1", "Content-Length: 5"], "hello"],
  [
    "a step of tus at a slot",
    ["POST", "Content-Type: application/offset+octet-stream", "Content-Length: 5"],
    "hello",
  ],
  [
    "a step of the draft at a slot",
    ["POST", "Content-Type: application/partial-upload", "Content-Length: 5"],
    "hello",
  ],
  [
    "what begins a resumable upload of Google",
    [
      "POST",
      "X-Upload-Content-Length: 1048576",
      "Content-Type: application/json",
      "Content-Length: 2",
    ],
    "{}",
  ],
  [
    "what begins the other one of Google",
    [
      "POST",
      "X-Goog-Upload-Protocol: resumable",
      "X-Goog-Upload-Command: start",
      "Content-Length: 0",
    ],
  ],
  [
    "a chunk of ownCloud",
    ["PUT", "OC-Chunked: 1", "OC-Total-Length: 100", "Content-Length: 5"],
    "hello",
  ],
  ["a range", ["PUT", "Content-Range: bytes 0-4/100", "Content-Length: 5"], "hello"],
];

test.for(rows)("%s is refused with a sentence, and leaves nothing", async ([, lines, body]) => {
  const server = await startUploadServer();
  const { url } = await server.slot();
  const answer = await sendLines(url, lines, body);
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(answer).toMatch(/"detail":"[^"]{15,}"/);
  expect(await server.files()).toEqual([]);
});

test("a file may be empty if its length says so", async () => {
  const server = await startUploadServer();
  for (const lines of [
    ["PUT", "Content-Length: 0"],
    ["PUT", "Content-Length: 0", "Upload-Length: 0"],
    ["POST", "Content-Length: 0"],
  ]) {
    const { url } = await server.slot();
    expect(await sendLines(url, lines)).toMatch(/^HTTP\/1\.1 201 /);
  }
});

test("headers that agree with the body do no harm", async () => {
  const server = await startUploadServer();
  const length = ["Upload-Length: 5", "X-File-Size: 5", "X-Expected-Entity-Length: 5"];
  for (const [framing, body] of [
    ["Content-Length: 5", "hello"],
    ["Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"],
  ] as const) {
    const { url } = await server.slot();
    const answer = await sendLines(url, ["PUT", ...length, framing], body);
    expect(answer).toMatch(/^HTTP\/1\.1 201 /);
  }
});

test("the first bytes of a file in steps may have the type of a step, which is not that of the file", async () => {
  const server = await startUploadServer();
  const { url, uploadId } = await server.slot({ accept: ["text/plain"] });
  const headers = {
    ...bearer("alice"),
    "upload-draft-interop-version": "6",
    "upload-complete": "?1",
    "upload-length": "5",
    "content-type": "application/partial-upload",
  };
  expect((await fetch(url, { method: "POST", headers, body: "hello" })).status).toBe(201);
  const [file] = await server.uploads.received(alice, uploadId);
  expect(file).toMatchObject({ mimeType: "text/plain", size: 5 });
});
