import { createLargeContent, type Fixture } from "@sluice/storage/conformance";
import { createFilesSdkBackend } from "@sluice/storage-files-sdk";
import { s3 } from "files-sdk/s3";
import { startS3StandIn } from "../../storage-s3/test/stand-in/stand-in.ts";
import { noSuchThing } from "./fixture.ts";

/** The S3 adapter of files-sdk, which reads exact versions and signs URLs, over a server that speaks S3. */
export async function createS3Fixture(): Promise<Fixture> {
  let passedMs = 0;
  const standIn = await startS3StandIn({ now: () => Date.now() + passedMs });
  const { bucket, endpoint, faults, credentials } = standIn;
  const adapter = s3({
    bucket,
    endpoint,
    credentials,
    region: "us-east-1",
    forcePathStyle: true,
    conditional: true,
  });
  // the adapter passes no settings on to its client, which would retry
  const attempts = process.env["AWS_MAX_ATTEMPTS"];
  process.env["AWS_MAX_ATTEMPTS"] = "1";
  return {
    backend: createFilesSdkBackend({ adapter, presign: true }),
    traits: { withoutCoding: true },
    why: { ...noSuchThing, overrun: "HTTP ends a body at its promised length" },
    put: async (key, content) => standIn.put(key, content.slice()),
    remove: async (key) => standIn.remove(key),
    putTyped: async (key, content, type) => standIn.put(key, content.slice(), type),
    putLarge: async (key, size, tail) => standIn.put(key, createLargeContent(size, tail)),
    async putClutter() {
      for (const name of ["folder/", "a//b.txt", "./c.txt", "line\nbreak", "back\\slash"])
        standIn.put(name, new Uint8Array());
    },
    reopen: async () => createFilesSdkBackend({ adapter }),
    faults: {
      reset: (resetAfter) => void faults.push({ resetAfter }),
      truncate: (endAfter) => void faults.push({ endAfter }),
      stall: (stallAfter) => void faults.push({ stallAfter }),
      ignoreRange: () => void faults.push({ ignoreRange: true, on: /^GET/ }),
      throttle: (retryAfter) => void faults.push({ status: 503, code: "SlowDown", retryAfter }),
      fail: () => void faults.push({ status: 500, code: "InternalError" }),
      deny: (key) =>
        void faults.push({
          on: new RegExp(key),
          status: 403,
          code: "AccessDenied",
          times: Infinity,
        }),
    },
    countHandles: () => standIn.countAnswering(),
    countRequests: () => standIn.requests.length,
    countBytes: () => standIn.countBytes(),
    secrets: [credentials.accessKeyId, credentials.secretAccessKey, new URL(endpoint).host],
    passTime: async (ms) => void (passedMs += ms),
    async dispose() {
      if (attempts === undefined) delete process.env["AWS_MAX_ATTEMPTS"];
      else process.env["AWS_MAX_ATTEMPTS"] = attempts;
      adapter.raw.destroy();
      await standIn[Symbol.asyncDispose]();
    },
  };
}
