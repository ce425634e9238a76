// #region serve
import { protect } from "@sluice/storage";
import { createS3Backend } from "@sluice/storage-s3";

/** Reads every object below `reports/` of a bucket, page by page, and counts the bytes. */
export async function countBytes(bucket: string, endpoint?: string): Promise<number> {
  const reports = createS3Backend({ bucket, prefix: "reports", ...(endpoint && { endpoint }) });
  const storage = protect(reports);
  let bytes = 0;
  let cursor: string | undefined;
  do {
    const page = await storage.list(cursor === undefined ? {} : { cursor });
    for (const { key } of page.objects) {
      const { body } = await storage.open(key);
      for await (const chunk of body) bytes += chunk.byteLength;
    }
    ({ cursor } = page);
  } while (cursor !== undefined);
  await reports.close?.();
  return bytes;
}
// #endregion

// #region client
import { S3Client } from "@aws-sdk/client-s3";

export const client = new S3Client({
  region: "eu-central-1",
  maxAttempts: 1,
  requestChecksumCalculation: "WHEN_REQUIRED",
  responseChecksumValidation: "WHEN_REQUIRED",
});
export const backend = createS3Backend({ bucket: "reports", client });
// #endregion

// #region presign
import type { StorageBackend } from "@sluice/storage";

/** A link that a browser can follow for ten minutes, or `undefined` when the bytes have to be passed on. */
export async function linkTo(storage: StorageBackend, key: string): Promise<string | undefined> {
  const presigned = await storage.presign?.(key, {
    expiresInMs: 600_000,
    contentDisposition: 'attachment; filename="report.pdf"',
  });
  return presigned?.url;
}
// #endregion

// #region write
import type { WritableBackend } from "@sluice/storage";

/** Stores a text that appears whole or not at all, and only where no object is yet. */
export async function store(storage: WritableBackend, key: string, text: string): Promise<void> {
  const writer = await storage.write(key, { ifAbsent: true, contentType: "text/plain" });
  try {
    await writer.write(Buffer.from(text));
    await writer.commit();
  } finally {
    await writer[Symbol.asyncDispose](); // discards what was not committed
  }
}
// #endregion

// #region watch
import type { S3EventSource } from "@sluice/storage-s3";

/** The part of `SQS` from @aws-sdk/client-sqs that is needed. */
interface Queue {
  receiveMessage(
    input: { QueueUrl: string; WaitTimeSeconds: number; MaxNumberOfMessages: number },
    options: { abortSignal: AbortSignal },
  ): Promise<{ Messages?: { Body?: string; ReceiptHandle?: string }[] }>;
  deleteMessage(input: { QueueUrl: string; ReceiptHandle: string }): Promise<unknown>;
}

/** A queue of SQS that a bucket sends its events to. */
export function fromSqs(queue: Queue, QueueUrl: string): S3EventSource {
  const handles = new WeakMap<object, string>();
  return {
    async receive({ signal }) {
      const { Messages = [] } = await queue.receiveMessage(
        { QueueUrl, WaitTimeSeconds: 20, MaxNumberOfMessages: 10 },
        { abortSignal: signal },
      );
      return Messages.map(({ Body = "", ReceiptHandle = "" }) => {
        const message = { body: Body };
        handles.set(message, ReceiptHandle);
        return message;
      });
    },
    async ack(messages) {
      for (const message of messages)
        await queue.deleteMessage({ QueueUrl, ReceiptHandle: handles.get(message) ?? "" });
    },
  };
}
// #endregion

import { afterEach, expect, test, vi } from "vitest";
import { createBucket } from "./bucket.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  client.destroy();
});

test("the examples of the README work", async () => {
  const notifications: string[] = [];
  const deleted: string[] = [];
  const queue: Queue = {
    async receiveMessage(_, { abortSignal }) {
      while (notifications.length === 0 && !abortSignal.aborted)
        await new Promise((resolve) => setImmediate(resolve));
      return {
        Messages: notifications.splice(0).map((Body) => ({ Body, ReceiptHandle: "handle" })),
      };
    },
    deleteMessage: async ({ ReceiptHandle }) => deleted.push(ReceiptHandle),
  };
  await using bucket = await createBucket(
    { prefix: "reports", events: fromSqs(queue, "https://sqs.example/queue") },
    { onEvent: (notification) => notifications.push(notification) },
  );
  const { standIn, backend: reports } = bucket;
  await store(reports, "q1.txt", "12345");
  await expect(store(reports, "q1.txt", "2")).rejects.toMatchObject({
    code: "precondition_failed",
  });
  standIn.put("other.txt", new Uint8Array(100));

  const { accessKeyId, secretAccessKey } = standIn.credentials;
  vi.stubEnv("AWS_ACCESS_KEY_ID", accessKeyId);
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", secretAccessKey);
  expect(await countBytes(standIn.bucket, standIn.endpoint)).toBe(5);

  const response = await fetch((await linkTo(reports, "q1.txt")) ?? "");
  expect(await response.text()).toBe("12345");
  expect(response.headers.get("content-disposition")).toBe('attachment; filename="report.pdf"');

  const caller = new AbortController();
  const changed: string[] = [];
  for await (const batch of reports.watch!({ signal: caller.signal })) {
    changed.push(...(batch.changed ?? []));
    if (changed.length > 0) caller.abort();
  }
  expect(changed).toEqual(["q1.txt"]);
  await expect.poll(() => deleted).toContain("handle");
});
