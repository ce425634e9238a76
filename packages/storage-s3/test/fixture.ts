import { createLargeContent, type Fixture } from "@sluice/storage/conformance";
import { createS3Backend } from "@sluice/storage-s3";
import { createEventQueue } from "./event-queue.ts";
import { checksumOf } from "./stand-in/checksum.ts";
import { startS3StandIn } from "./stand-in/stand-in.ts";

const prefix = "tenants/docs/";

/** A bucket of the stand-in, below a prefix, for the conformance kit. */
export async function createFixture(): Promise<Fixture> {
  let passedMs = 0;
  const events = createEventQueue();
  const standIn = await startS3StandIn({
    now: () => Date.now() + passedMs,
    onEvent: (notification) => events.push(notification),
  });
  const { bucket, endpoint, faults } = standIn;
  // as of a role: the session changes with every renewal
  let sessions = 0;
  const credentials = async () => ({
    ...standIn.credentials,
    sessionToken: `session-${++sessions}`,
    expiration: new Date(Date.now() + 3_600_000),
  });
  const settings = { bucket, endpoint, credentials, prefix, writable: true, events };
  const backend = createS3Backend(settings);
  const reopened: { close?(): Promise<void> }[] = [];
  const contents = new Map<string, Uint8Array>();
  const nameOf = (key: string): string => prefix + key;
  return {
    backend,
    traits: {
      maxKeyBytes: 1024 - prefix.length,
      partBytes: 8 * 1024 * 1024,
      credentialsExpireAt: new Date(Date.now() + 3_600_000),
    },
    why: {
      alias: "a key has one spelling",
      overwrite: "objects are replaced, never changed",
      overrun: "HTTP ends a body at its promised length",
    },
    async put(key, content) {
      contents.set(key, content.slice());
      standIn.put(nameOf(key), content.slice(), checksums(content));
    },
    // S3 changes metadata by copying an object onto itself
    touch: async (key) =>
      standIn.put(nameOf(key), contents.get(key) ?? new Uint8Array(), {
        contentType: "text/plain",
      }),
    remove: async (key) => standIn.remove(nameOf(key)),
    putTyped: async (key, content, type) => standIn.put(nameOf(key), content.slice(), type),
    putLarge: async (key, size, tail) => standIn.put(nameOf(key), createLargeContent(size, tail)),
    async putFolder() {
      standIn.put(nameOf("archived.bin"), new Uint8Array(10), { storageClass: "GLACIER" });
      return "archived.bin";
    },
    async putClutter() {
      const names = [
        "folder/",
        "",
        "a//b.txt",
        "./c.txt",
        "d/../e.txt",
        "line\nbreak",
        "back\\slash",
      ];
      for (const name of names) standIn.put(nameOf(name), new Uint8Array());
      await backend.write?.("unfinished.bin");
    },
    async putOutside() {
      for (const name of [
        "x.txt",
        "tenants/x.txt",
        "tenants/docs-secret/x.txt",
        "tenants/docsx.txt",
      ])
        standIn.put(name, Buffer.from("outside"));
      return {
        sibling: ["../docs-secret/x.txt", "-secret/x.txt", "/../docs-secret/x.txt"],
        escapes: [
          "../x.txt",
          "../../x.txt",
          "%2e%2e/x.txt",
          "..%2fx.txt",
          "..\\x.txt",
          "/x.txt",
          "//x.txt",
          `/${bucket}/x.txt`,
          `${endpoint}/${bucket}/x.txt`,
          "x.txt?prefix=",
          "a/../../x.txt",
        ],
      };
    },
    async reopen() {
      const another = createS3Backend(settings);
      reopened.push(another);
      return another;
    },
    faults: {
      reset: (resetAfter) => void faults.push({ resetAfter }),
      truncate: (endAfter) => void faults.push({ endAfter }),
      stall: (stallAfter) => void faults.push({ stallAfter }),
      corrupt: (corruptAt) => void faults.push({ corruptAt }),
      ignoreRange: () => void faults.push({ ignoreRange: true }),
      page: (page) => void faults.push({ page }),
      loseAnswer: () => void faults.push({ lost: true }),
      validator: (validator) => void faults.push({ validator }),
      throttle: (retryAfter) => void faults.push({ status: 503, code: "SlowDown", retryAfter }),
      fail: () => void faults.push({ status: 500, code: "InternalError" }),
      deny: (key) =>
        void faults.push({
          on: new RegExp(`/${nameOf(key)}`),
          status: 403,
          code: "AccessDenied",
          times: Infinity,
        }),
      expireCredentials: (times) => void faults.push({ status: 400, code: "ExpiredToken", times }),
    },
    countHandles: () => standIn.countAnswering(),
    countRequests: () => standIn.requests.length,
    countBytes: () => standIn.countBytes(),
    countLeftovers: () => standIn.countUploads(),
    secrets: [
      standIn.credentials.accessKeyId,
      standIn.credentials.secretAccessKey,
      "session-",
      new URL(endpoint).host,
    ],
    passTime: async (ms) => void (passedMs += ms),
    async dispose() {
      await backend.close?.();
      for (const another of reopened) await another.close?.();
      await standIn[Symbol.asyncDispose]();
    },
  };
}

function checksums(content: Uint8Array) {
  return { checksums: { sha256: checksumOf("sha256", content) ?? "" } };
}
