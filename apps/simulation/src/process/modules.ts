import * as realCrypto from "node:crypto";
import { createRequire } from "node:module";
import { createFileSystem } from "../services/file-system.ts";
import type { Random } from "../world/random.ts";
import { uuidOf, webCrypto } from "./globals.ts";
import type { Life } from "./machine.ts";
import type { Timers } from "./timers.ts";

const realRequire = createRequire(import.meta.url);

/** Modules of Node without time, randomness or the outside: all processes have the real ones. */
const pure = new Set(
  "assert async_hooks buffer events path path/posix querystring stream stream/promises stream/web string_decoder url util zlib module".split(
    " ",
  ),
);

/** Gives the modules of Node as one process has them. */
export function createModules(life: Life, random: Random, timers: Timers): (id: string) => unknown {
  const { disk, programs } = life.machine;
  const files = disk && createFileSystem(disk, life);
  const simulated: Readonly<Record<string, unknown>> = {
    crypto: cryptoOf(random, timers),
    ...(files && { fs: files.module, "fs/promises": files.promises }),
    ...(programs && { child_process: { spawn: programs.spawnOf(life) } }),
    os: { hostname: () => "host", homedir: () => "/home", tmpdir: () => "/tmp", EOL: "\n" },
    timers,
    cluster: { isWorker: false },
    worker_threads: {
      isMainThread: true,
      Worker: refuseThread,
    },
  };
  return (id) => {
    const name = id.replace(/^node:/, "");
    if (Object.hasOwn(simulated, name)) return simulated[name];
    if (pure.has(name)) return realRequire(`node:${name}`) as unknown;
    return absent(name);
  };
}

function refuseThread(): never {
  throw new Error(
    "simulation: threads are not simulated; keep files below the size that starts one",
  );
}

/** A module that may be imported. Only a call says that it is not simulated. */
function absent(name: string): unknown {
  const refuse = (): never => {
    throw new Error(`simulation: node:${name} is not simulated`);
  };
  const call = (): object =>
    new Proxy(function unknown() {}, {
      apply: refuse,
      construct: refuse,
      // some calls have others as members, such as `realpath.native`
      get: (own, member) =>
        typeof member === "symbol" || member in own ? Reflect.get(own, member) : call(),
    });
  return new Proxy(
    {},
    {
      get: (_own, member) =>
        typeof member === "symbol" || member === "then" || member === "__esModule"
          ? undefined
          : call(),
    },
  );
}

/** `node:crypto`: what is computed is real, what is random is of the seed. */
function cryptoOf(random: Random, timers: Timers): object {
  const web = webCrypto(random);
  function randomBytes(size: number, done?: (error: null, bytes: Buffer) => void): Buffer | void {
    const bytes = random.fillBytes(Buffer.alloc(size));
    if (!done) return bytes;
    timers.setImmediate(() => done(null, bytes));
  }
  return {
    ...realCrypto,
    webcrypto: web,
    randomBytes,
    randomUUID: () => uuidOf(random),
    randomFillSync: (bytes: ArrayBufferView) => web.getRandomValues(bytes),
    getRandomValues: (bytes: ArrayBufferView) => web.getRandomValues(bytes),
    randomInt: (low: number, high: number) => random.int(low, high - 1),
  };
}
