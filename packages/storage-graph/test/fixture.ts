import { createLargeContent, type Fixture } from "@sluice/storage/conformance";
import { createGraphBackend } from "@sluice/storage-graph";
import { startGraphEmulator } from "@sluice/graph-emulator";

const linkTtlMs = 3_600_000;

/** Keys that OneDrive takes for other names, or for none. */
const refused = /["*:<>?|]|(?:^|\/) |[ .](?:\/|$)/;

function inRoot(key: string): string {
  return `Shared/Root ö%/${key}`;
}

/** A drive of the emulator with one folder as the root, for the conformance kit. */
export async function createFixture(
  driveType: "business" | "personal" = "business",
): Promise<Fixture> {
  const driveId = driveType === "personal" ? "0a1b2c3d4e5f6789" : "b!main";
  const emulator = await startGraphEmulator({ driveId, driveType, linkTtlMs, pageSize: 50 });
  const { drive, origins, credential } = emulator;
  drive.putFolder("Shared/Root ö%");
  const options = {
    credential,
    driveId,
    root: { path: "/Shared/Root ö%" },
    baseUrl: origins.graph,
    writable: true,
    watchIntervalMs: 20,
  };
  const backend = createGraphBackend(options);
  const backends = [backend];
  const onContent = /^GET download /;
  return {
    backend,
    traits: {
      caseInsensitive: true,
      refuses: (key) => refused.test(key),
      // 400 characters for the whole path, of which the root takes 15
      maxKeyBytes: 380,
      partBytes: 5 * 1024 * 1024,
      urlLifeMs: linkTtlMs,
    },
    why: {
      putTyped: "Graph decides the type by itself, and keeps no coding",
      overrun: "HTTP ends a body at its promised length",
    },
    put: async (key, content) => void drive.put(inRoot(key), content),
    remove: async (key) => drive.remove(inRoot(key)),
    putLarge: async (key, size, tail) =>
      void drive.put(inRoot(key), createLargeContent(size, tail)),
    overwrite: async (key, content) => void drive.put(inRoot(key), content),
    touch: async (key) => drive.touch(inRoot(key)),
    async putFolder() {
      drive.putFolder(inRoot("a-folder"));
      return "a-folder";
    },
    async putClutter() {
      drive.put(inRoot(" leading.txt"), "no key");
      drive.put(inRoot("virus.exe"), "flagged", { malware: true });
      drive.putFolder(inRoot("empty/folder"));
      drive.putPackage(inRoot("Notebook"));
      const other = emulator.addDrive("b!other", { isReachable: true });
      other.put("x.txt", "elsewhere");
      drive.putShortcut(inRoot("shortcut"), other, "x.txt");
      drive.put("Shared/beside.txt", "outside");
    },
    alias: (key) => key.toUpperCase(),
    async putOutside() {
      drive.put("Shared/Root ö%-secret/x.txt", "outside");
      drive.put("Shared/x.txt", "outside");
      const other = emulator.addDrive("b!other", { isReachable: true });
      other.put("folder/x.txt", "outside");
      drive.putShortcut(inRoot("shortcut"), other, "folder");
      return {
        sibling: ["../Root ö%-secret/x.txt", "-secret/x.txt"],
        escapes: [
          "../x.txt",
          "%2e%2e/x.txt",
          "..%2fx.txt",
          "shortcut",
          "shortcut/x.txt",
          "x.txt:/../x.txt",
          "..\\x.txt",
          ":/../x.txt",
          "/Shared/x.txt",
        ],
      };
    },
    async reopen() {
      const again = createGraphBackend(options);
      backends.push(again);
      return again;
    },
    faults: {
      reset: (resetAfter) => emulator.fault({ on: onContent, resetAfter }),
      truncate: (truncateAfter) => emulator.fault({ on: onContent, truncateAfter }),
      stall: (stallAfter) => emulator.fault({ on: onContent, stallAfter }),
      corrupt: (corruptAt) => emulator.fault({ on: onContent, corruptAt }),
      ignoreRange: () => emulator.fault({ on: onContent, ignoreRange: true }),
      loseAnswer: () => emulator.fault({ on: /./, isLost: true }),
      page: (page) => emulator.fault({ on: onContent, page }),
      validator: (named) =>
        emulator.fault({
          on: onContent,
          ...(named === "none" ? { isWithoutVersion: true } : { isOtherVersion: true }),
        }),
      throttle: (retryAfter) => emulator.fault({ on: /./, status: 429, retryAfter }),
      fail: () => emulator.fault({ on: /./, status: 500 }),
      deny: (key) =>
        emulator.fault({
          on: new RegExp(key),
          status: 403,
          code: "accessDenied",
          times: Infinity,
        }),
      expireCredentials: (times) =>
        emulator.fault({
          on: /^GET graph /,
          status: 401,
          code: "InvalidAuthenticationToken",
          times,
        }),
    },
    countHandles: () => emulator.openAnswers(),
    countRequests: () => emulator.requests.length,
    countBytes: () => emulator.sentBytes(),
    countLeftovers: () => emulator.openSessions(),
    secrets: ["emulated-token", "tempauth", "127.0.0.1", driveId],
    passTime: async (ms) => emulator.passTime(ms),
    async dispose() {
      for (const each of backends) await each.close?.();
      await emulator[Symbol.asyncDispose]();
    },
  };
}
