import { dirname } from "node:path/posix";
import type { FileSource } from "../../../../packages/client/src/upload/source/file-source.ts";
import type { Machine } from "../process/machine.ts";
import type { Run } from "../run/profile.ts";
import type { Random } from "../world/random.ts";
import { type Cluster, endpoint, principalFor } from "./cluster.ts";
import { isAccepted } from "./upload-limits.ts";
import { sha256Of } from "./versions.ts";
import { attempt } from "./workload.ts";

interface Trial {
  readonly bytes: Buffer;
  readonly sha256: string;
  uploadId: string;
  url: string;
  /** Where the rest of the file goes, once the client knows. */
  location?: string;
  confirmations: number;
}

const alice = principalFor("alice");
const slotTtlMs = 600_000;

/** Most bytes that are kept for one principal. */
export const quotaBytes = 2_000_000;

/** Sizes around the thresholds of the profile. */
const sizes = [1, 3_000, 9_000, 30_000, 60_000] as const;

/** Codes that only a fault of the product gives: whatever the network and the storage do, the client can resume. */
const faultCodes: ReadonlySet<string> = new Set(["protocol", "corrupt", "invalid_argument"]);

/** Uploads in steps, each to a slot of its own. What must hold: a file that was sent is never lost, altered or confirmed twice. */
export class UploadTrials {
  readonly #run: Run;
  readonly #cluster: Cluster;
  readonly #trials: Trial[] = [];

  constructor(run: Run, cluster: Cluster) {
    this.#run = run;
    this.#cluster = cluster;
  }

  /** Reserves a slot, sends a file to it with some tries, and confirms it. */
  async upload(name: string, machine: Machine, random: Random): Promise<void> {
    const bytes = random.fillBytes(Buffer.alloc(random.pick(sizes)));
    const trial = await this.#reserve(name, bytes, random);
    if (!trial) return;
    this.#trials.push(trial);
    for (let tries = 1; tries <= 4; tries++) {
      const result = await attempt(this.#run, `${name} sends (${tries})`, machine, () =>
        this.#send(machine, trial),
      );
      if (result === "ok") return this.#confirm(name, trial, random);
      if (faultCodes.has(result)) this.#run.world.violate("UPLOAD", `${name}: ${result}`);
      if (result === "not_found" || result === "expired") delete trial.location;
      await this.#run.world.sleep(random.next() * 5_000);
    }
    return undefined;
  }

  async #reserve(name: string, bytes: Buffer, random: Random): Promise<Trial | undefined> {
    const server = random.pick(this.#cluster.running());
    if (!server) return undefined;
    let trial: Trial | undefined;
    await attempt(this.#run, `${name} reserves`, server.life.machine, async () => {
      const terms = { accept: [], maxBytes: quotaBytes, maxFiles: 1, ttlMs: slotTtlMs };
      const { url, uploadId } = await server.uploads.reserve(alice, terms);
      trial = { bytes, sha256: sha256Of(bytes), uploadId, url, confirmations: 0 };
    });
    return trial;
  }

  async #send(machine: Machine, trial: Trial): Promise<void> {
    const { product } = machine.life!;
    const session = new product.ClientSession(new URL(endpoint), () => "alice");
    const settings = {
      sender: product.createBlindSender(product.httpExchange),
      trust: { session, trustedOrigins: [] },
      timeouts: product.sendTimeouts,
    };
    const claim = {
      method: "POST",
      wire: "resumable",
      auth: "bound",
      sessionBound: false,
    } as const;
    const onLocation = (next: string): void => void (trial.location = next);
    const { bytes, url, location } = trial;
    const [sent] = await product.sendFiles(
      {
        sources: [sourceOfBytes(bytes)],
        target: product.acceptTarget({ ...claim, url }, settings.trust),
        signal: new AbortController().signal,
        onSent() {},
        begun: { keep: true, onLocation, ...(location !== undefined && { location }) },
      },
      settings,
    );
    if (sent!.sha256 !== trial.sha256)
      this.#run.world.violate("UPLOAD", "the client tells another digest than its file has");
  }

  /** Confirms an upload, perhaps at two servers at once. */
  async #confirm(name: string, trial: Trial, random: Random): Promise<void> {
    const { world } = this.#run;
    // after an error nobody knows whether it was carried out
    let isUncertain = false;
    for (let tries = 1; tries <= 8 && trial.confirmations === 0; tries++) {
      const count = random.chance(0.3) ? 2 : 1;
      const results = await Promise.all(
        Array.from({ length: count }, (_, at) =>
          this.#confirmOnce(`${name} confirms (${tries}.${at})`, trial, random),
        ),
      );
      const unexpected = results.find((result) => refusals.has(result));
      if (unexpected !== undefined && !isUncertain && trial.confirmations === 0 && count === 1)
        world.violate(
          "UPLOAD",
          `${name}: it was sent whole, and a confirmation says ${unexpected}`,
        );
      if (unexpected !== undefined) return;
      isUncertain = true;
      await world.sleep(3_000);
    }
  }

  async #confirmOnce(name: string, trial: Trial, random: Random): Promise<string> {
    const server = random.pick(this.#cluster.running());
    if (!server) return "unavailable";
    const { world } = this.#run;
    const { uploadId, bytes, sha256 } = trial;
    const mimeType = "application/octet-stream";
    const claim = { name: "f.bin", size: bytes.length, mimeType, sha256 };
    return attempt(this.#run, name, server.life.machine, async () => {
      const [file] = await server.uploads.confirm(alice, uploadId, [claim]);
      if (file!.sha256 !== sha256 || file!.size !== bytes.length)
        world.violate("UPLOAD", `${name}: the confirmation gives another file`);
      trial.confirmations += 1;
      if (trial.confirmations > 1) world.violate("TWICE", `${name}: it was confirmed before`);
    });
  }

  /** Confirmed files are there, and as they were sent. */
  async checkFiles(): Promise<void> {
    const { world } = this.#run;
    for (const { uploadId, confirmations, sha256 } of this.#trials) {
      if (confirmations === 0) continue;
      const server = world.random(`check ${uploadId}`).pick(this.#cluster.running());
      try {
        const [file] = await server.uploads.reopen(alice, uploadId);
        if (sha256Of(await file!.bytes()) !== sha256)
          world.violate("UPLOAD", `a confirmed file of ${uploadId} is altered`);
        world.count("confirmed file read again");
      } catch (error) {
        world.violate("UPLOAD", `a confirmed file of ${uploadId} is gone: ${String(error)}`);
      }
    }
  }

  /** All slots are over: storage has confirmed files and nothing else, and the quota counts these and nothing else. */
  async checkLeftovers(): Promise<void> {
    const { world } = this.#run;
    const { objects } = await this.#cluster.inbox.objects.list({});
    const keys = objects.map(({ key }) => key);
    const confirmed = new Set(
      keys.filter((key) => key.endsWith("/confirmed")).map((key) => dirname(key)),
    );
    for (const key of keys)
      if (!confirmed.has(dirname(key)) || !/\/(?:bytes-.*|file-\d+|confirmed)$/.test(key))
        world.violate("LEFTOVER", `${key} is of no confirmed file`);
    const keptBytes = objects
      .filter(({ key }) => key.includes("/bytes-"))
      .reduce((sum, { size = 0 }) => sum + size, 0);
    const freeBytes = quotaBytes - keptBytes;
    for (const server of this.#cluster.running()) {
      const { name } = server.life.machine;
      if (await isAccepted(server, "alice", freeBytes + 1))
        world.violate("QUOTA", `${name} takes ${freeBytes + 1} bytes more than its quota leaves`);
      if (!(await isAccepted(server, "alice", freeBytes)))
        world.violate("QUOTA", `${name} refuses ${freeBytes} bytes, which its quota leaves`);
    }
  }
}

const refusals: ReadonlySet<string> = new Set([
  "already_exists",
  "not_found",
  "precondition_failed",
]);

/** A file in memory, as the client takes it. */
function sourceOfBytes(bytes: Buffer): FileSource {
  return {
    name: "f.bin",
    size: bytes.length,
    mimeType: "application/octet-stream",
    isTypeGuessed: false,
    open: async () => ({
      size: bytes.length,
      async *chunks(start: number, end: number) {
        for (let at = start; at < end; at += 10_000)
          yield new Uint8Array(bytes.subarray(at, Math.min(end, at + 10_000)));
      },
      ensureSame: async () => {},
      close: async () => {},
    }),
  };
}
