import { createServer } from "node:http";
import type { Source } from "@sluice/core";
import type { Reply, TransferResult } from "@sluice/server/internal";
import { expect, test } from "vitest";
import { sendReply } from "../src/download/send-reply.ts";
import { toResponse } from "../src/endpoint/web-response.ts";
import { listen } from "./serve.ts";

/** A stream of two chunks, of 4 bytes in all. */
const streamed = (): Source => ({
  body: new ReadableStream({
    start(body) {
      body.enqueue(new Uint8Array(3));
      body.enqueue(new Uint8Array(1));
      body.close();
    },
  }),
});
const inMemory = (): Source => ({ ...streamed(), bytes: new Uint8Array(4) });

/** Reads a response to its end: the status, or that it broke. */
async function read(answer: Promise<Response>): Promise<number | "broken"> {
  try {
    const response = await answer;
    await response.arrayBuffer();
    return response.status;
  } catch {
    return "broken";
  }
}

async function readOverHttp(reply: Reply): Promise<number | "broken"> {
  const url = await listen(createServer((_req, res) => void sendReply(res, reply)));
  return read(fetch(url));
}

const readAsResponse = (reply: Reply): Promise<number | "broken"> =>
  read(Promise.resolve(toResponse(reply)));

test.each([
  ["a web response", readAsResponse, streamed, "broken"],
  ["a Node response", readOverHttp, streamed, "broken"],
  ["a Node response from memory", readOverHttp, inMemory, 502],
] as const)(
  "%s fails as corrupt if its source gives too many bytes, as interrupted if too few",
  async (_name, readReply, createSource, outcome) => {
    const wrong = [
      [3, "corrupt"],
      [5, "interrupted"],
    ] as const;
    for (const [promisedBytes, code] of wrong) {
      const results: TransferResult[] = [];
      const reply: Reply = {
        status: 200,
        headers: ["Content-Length", String(promisedBytes)],
        transfer: {
          source: createSource(),
          promisedBytes,
          end: (result) => void results.push(result),
        },
      };
      expect(await readReply(reply)).toBe(outcome);
      await expect.poll(() => results).toMatchObject([{ outcome: "failed", error: { code } }]);
    }
  },
);

test("a web response of which too many bytes come counts only the bytes that it handed over", async () => {
  const results: TransferResult[] = [];
  const transfer = {
    source: streamed(),
    promisedBytes: 3,
    end: (result: TransferResult) => void results.push(result),
  };
  expect(await readAsResponse({ status: 200, headers: [], transfer })).toBe("broken");
  expect(results).toMatchObject([{ outcome: "failed", bytes: 3 }]);
});
