import { createByteAccount } from "@sluice/server/internal";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { liftBodyDeadline, nodeBody, setBodyDeadline } from "../src/node/node-body.ts";
import { toCollectedRequest, toStreamingRequest } from "../src/node/incoming-request.ts";
import { listen } from "./serve.ts";

/** Sends a request head for three bytes, and what is given of them. */
async function send(origin: string, body: string): Promise<string> {
  const socket = connect(Number(new URL(origin).port), "127.0.0.1");
  socket.on("error", () => {});
  socket.write(
    `PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\n${body}`,
  );
  let said = "";
  socket.setEncoding("latin1").on("data", (chunk: string) => void (said += chunk));
  await once(socket, "close");
  return said;
}

test("a body that does not come in time ends its connection, unless its reader has deadlines of its own", async () => {
  const server = createServer((req, res) => {
    setBodyDeadline(req, res, { timeoutMs: 50, onWait: () => () => {} });
    req.resume().on("end", () => res.end("read"));
  });
  const origin = await listen(server);
  expect(await send(origin, "abc")).toMatch(/read$/);
  expect(await send(origin, "ab")).toMatch(/^HTTP\/1.1 408 /);
  const reader = createServer((req, res) => {
    setBodyDeadline(req, res, { timeoutMs: 50, onWait: () => () => {} });
    liftBodyDeadline(req);
    setTimeout(() => res.end("patient"), 150);
  });
  expect(await send(await listen(reader), "ab")).toMatch(/patient$/);
});

test("the end of a body waits for what its last chunk is waiting for", async () => {
  let outcome = "";
  const server = createServer((req, res) => {
    const { signal } = new AbortController();
    const take = async (): Promise<void> => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      throw new Error("refused late");
    };
    nodeBody(req)!
      .read(take, signal)
      .then(() => (outcome = "read"))
      .catch((error: Error) => (outcome = error.message))
      .finally(() => res.end());
  });
  await send(await listen(server), "abc");
  expect(outcome).toBe("refused late");
});

test("a body that is cut off is interrupted", async () => {
  let outcome: unknown;
  const server = createServer((req) => {
    const { signal } = new AbortController();
    nodeBody(req)!
      .read(() => undefined, signal)
      .catch((error: unknown) => (outcome = error));
  });
  const socket = connect(Number(new URL(await listen(server)).port), "127.0.0.1");
  socket.write("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na", () => socket.destroy());
  await expect.poll(() => outcome).toMatchObject({ code: "interrupted" });
});

test("a body that came while middleware was busy is there, and one that middleware read is never an empty one", async () => {
  const outcomes: unknown[] = [];
  const server = createServer((req, res) => {
    const { signal } = new AbortController();
    let text = "";
    const read = async (): Promise<void> => {
      while (!req.complete) await new Promise((resolve) => setImmediate(resolve));
      if (outcomes.length === 1) await once(req.resume(), "end");
      await nodeBody(req)!.read((chunk) => void (text += String(chunk)), signal);
    };
    read()
      .then(
        () => outcomes.push(text),
        (error: unknown) => outcomes.push(error),
      )
      .finally(() => res.end());
  });
  const origin = await listen(server);
  await send(origin, "abc");
  await send(origin, "abc");
  expect(outcomes).toMatchObject(["abc", { message: expect.stringContaining("middleware") }]);
});

test("text that middleware made of a body is bytes again where it is JSON, and counts as such, and is refused where it is a file", async () => {
  const outcomes: unknown[] = [];
  const { signal } = new AbortController();
  const options = { target: "/", signal, excess: createByteAccount(1).open() };
  const reads: ((req: IncomingMessage, res: ServerResponse) => Promise<unknown>)[] = [
    async (req) => {
      const { request } = await toCollectedRequest(req, { ...options, maxBytes: 3 });
      return request.text();
    },
    (req) => toCollectedRequest(req, { ...options, maxBytes: 2 }),
    (req) => nodeBody(req)!.read(() => undefined, signal),
  ];
  const server = createServer((req, res) => {
    req.setEncoding("utf8");
    const read = reads[outcomes.length]!;
    void read(req, res)
      .catch((error: unknown) => error)
      .then((outcome) => void outcomes.push(outcome))
      .finally(() => res.end());
  });
  const origin = await listen(server);
  for (const _ of reads) await send(origin, "€");
  expect(outcomes).toMatchObject([
    "€",
    { name: "BodyTooLargeError" },
    { message: expect.stringContaining("encoding") },
  ]);
});

test("a streamed body may be cancelled as its last chunk is read", async () => {
  const failures: unknown[] = [];
  const onFailure = (error: unknown): void => void failures.push(error);
  process.on("unhandledRejection", onFailure);
  onTestFinished(() => void process.off("unhandledRejection", onFailure));
  const server = createServer((req, res) => {
    const { signal } = new AbortController();
    const { method, headers, url } = req;
    const like = { method: method!, headers, url: url!, async *[Symbol.asyncIterator]() {} };
    const cancel = async (): Promise<void> => {
      while (!req.complete) await new Promise((resolve) => setImmediate(resolve));
      const { body } = await toStreamingRequest(req, res, { like, signal });
      const reader = body!.getReader();
      while (!req.readableEnded) await new Promise((resolve) => setImmediate(resolve));
      await reader.read();
      await reader.cancel();
      await new Promise((resolve) => setImmediate(resolve));
    };
    void cancel().finally(() => res.end("read"));
  });
  expect(await send(await listen(server), "abc")).toMatch(/read$/);
  expect(failures).toEqual([]);
});
