import { createHash } from "node:crypto";
import { SluiceError, tokenLifetimes } from "@sluice/core";
import { clockSkewMs, systemClock, within } from "@sluice/core/internal";
import { keyPrefix, leadKey } from "./redis-keys.ts";

/**
 * A client of a Redis server, or of one that speaks its protocol: `Redis` and `Cluster` of ioredis, and what
 * `createClient`, `createClientPool`, `createCluster` and `createSentinel` of node-redis make. It is the caller's:
 * connect it before, close it after.
 */
export type RedisClient =
  | { call(command: string, ...args: string[]): Promise<unknown> }
  | { sendCommand(command: string[]): Promise<unknown> }
  /** A cluster of node-redis. */
  | {
      sendCommand(key: string, isReadonly: boolean, command: string[]): Promise<unknown>;
      getSlotRandomNode: unknown;
    }
  /** A sentinel of node-redis. */
  | {
      sendCommand(isReadonly: boolean, command: string[]): Promise<unknown>;
      getMasterNode: unknown;
    };

/** Options of everything that is kept in Redis. */
export interface RedisOptions {
  readonly redis: RedisClient;
  /**
   * Prefix of every key; the version of the format follows it: `{sluice}:1:`. Default: `{sluice}:`. The braces keep all
   * of them on one node of a cluster, where scripts need them.
   */
  readonly prefix?: string;
  /**
   * Longest wait for a response in milliseconds, from 1 to 60,000; then the store counts as down. Default: 2,000.
   */
  readonly timeoutMs?: number;
  /**
   * Accepts a Redis that may evict keys, that is, one whose `maxmemory-policy` is not `noeviction`. With false, the
   * default, every call to it fails: an evicted claim lets a URL be redeemed twice, and an evicted revocation brings
   * URLs back.
   */
  readonly allowEviction?: boolean;
  /**
   * Receives a message when the clocks of this process and of Redis begin to differ by more than 5 s, and one when a
   * store finds the client closed for good. Default: writes it with `console.warn`. With more than 15 minutes between
   * the clocks, every call fails.
   */
  readonly onWarning?: (message: string) => void;
}

/** A Lua script, which Redis runs as one step that nothing comes between. */
export interface Script {
  readonly lua: string;
  readonly sha1: string;
}

/**
 * Times in arguments come from the clock of the caller, whose last argument says when it sent them. Redis takes them as
 * they are while the two clocks agree within the allowed skew, and else moves them to its own: `at` does that.
 */
const clock = `
local shift = 0
do
  local time = redis.call('TIME')
  local ahead = tonumber(ARGV[#ARGV]) - (time[1] * 1000 + math.floor(time[2] / 1000))
  if math.abs(ahead) > ${clockSkewMs} then shift = -ahead end
end
local function at(time) return tonumber(time) + shift end
local function whole(number) return string.format('%.0f', number) end
`;

/**
 * The greatest difference between the clocks of a process and of Redis. Beyond it, the store refuses the process: a
 * revocation has to reach as far ahead as the fastest clock, and would withdraw whatever is made in that time.
 */
const maxClockDriftMs = 15 * 60_000;

/** Makes a script, named by its digest as `EVALSHA` requires. */
export function createScript(lua: string): Script {
  const text = clock + lua;
  return { lua: text, sha1: createHash("sha1").update(text).digest("hex") };
}

/**
 * Key: the greatest lead of any process. Further arguments: for how long that counts, and 1 to name the policy. Gives
 * the time in milliseconds and the `maxmemory-policy`. A revocation must reach what a process made whose clock is ahead.
 */
const inspectScript: Script = createScript(`
if shift < 0 and -shift <= ${maxClockDriftMs} then 
  redis.call('SET', KEYS[1], whole(math.max(-shift, ${leadIn("KEYS[1]")})), 'PX', ARGV[1])
end
local time = redis.call('TIME')
local policy = ARGV[2] == '1' and string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:([%w-]+)') or ''
return {time[1] .. string.format('%03d', math.floor(time[2] / 1000)), policy}
`);

/** Lua that reads the greatest lead from its key. No process may have a greater one than is allowed. */
export function leadIn(key: string): string {
  return `math.min(tonumber(redis.call('GET', ${key}) or 0), ${maxClockDriftMs})`;
}

/** Sends commands. What Redis does not answer in time, or answers with an error, is `unavailable`. */
export interface Commander {
  send(command: string, key: string, ...args: string[]): Promise<unknown>;
  /**
   * Runs a script, which Redis is given once and remembers. Rejects with `internal` for a Redis that may evict what is
   * kept. The first key says where in a cluster it runs.
   */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown>;
  /** Rejects as `run` does. */
  check(): Promise<unknown>;
}

/**
 * Makes a commander of a client; a `TypeError` for anything else and for a client that its own timeout would close for
 * good, a `RangeError` for a wait out of bounds.
 */
export function createCommander(operation: string, options: RedisOptions): Commander {
  const { redis, timeoutMs = defaultTimeoutMs, onWarning = warnOnConsole } = options;
  const prefix = keyPrefix(options);
  const ask = senderOf(redis);
  if (!ask) throw new TypeError(`${operation}: redis must be a client of ioredis or node-redis`);
  if (endsAtTimeout(redis)) throw new TypeError(`${operation}: ${endingClient}`);
  if (!(timeoutMs >= 1 && timeoutMs <= 60_000))
    throw new RangeError(`${operation}: timeoutMs must be from 1 to 60000`);

  let isReported = false;
  function closed(cause: unknown): SluiceError {
    const message = `${operation}: the client of Redis is closed and does not reconnect by itself: call its connect(), or restart the process`;
    if (!isReported) onWarning(message);
    isReported = true;
    return new SluiceError("unavailable", message, { cause, retryAfterMs: 1_000 });
  }

  async function answered(work: Promise<unknown>): Promise<unknown> {
    try {
      return await within(work, {
        clock: systemClock,
        timeoutMs,
        expired: () => new Error(`no answer within ${timeoutMs} ms`),
      });
    } catch (error) {
      if (SluiceError.is(error)) throw error;
      if (isFull(error)) throw full(operation, error);
      if (isClosed(redis, error)) throw closed(error);
      throw new SluiceError("unavailable", `${operation}: Redis does not answer as it should`, {
        cause: error,
        retryAfterMs: 1_000,
      });
    }
  }

  async function evaluate(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args.map(String), String(Date.now())];
    const [key = prefix] = keys;
    try {
      return await ask!(key, ["EVALSHA", script.sha1, ...rest]);
    } catch (error) {
      // a server that was restarted, or was never given it
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return ask!(key, ["EVAL", script.lua, ...rest]);
    }
  }

  // with its own wait: one command that is never answered must not keep all calls waiting
  const ensureFit = createInspection(operation, options, (...command) =>
    answered(evaluate(...command)),
  );

  return {
    send: (command, key, ...args) => answered(ask(key, [command, key, ...args])),
    async run(script, keys, args) {
      const fit = ensureFit();
      return answered(
        fit ? fit.then(() => evaluate(script, keys, args)) : evaluate(script, keys, args),
      );
    },
    check: async () => answered(Promise.resolve(ensureFit())),
  };
}

/**
 * Rejects for a Redis in which nothing can be kept: with `internal` if it may evict keys or its clock is too far off that
 * of this process, with `unavailable` if it cannot be reached. Every store checks that by itself at its first call; a server that calls this before it listens refuses to
 * start instead.
 */
export async function checkRedis(options: RedisOptions): Promise<void> {
  await createCommander("redis", options).check();
}

/**
 * Makes the check that Redis evicts nothing, and that its clock agrees with that of this process. It runs before the
 * first script and again each minute; `undefined` between. Rejects with `internal` for a Redis that may evict, and for
 * clocks too far apart.
 */
function createInspection(
  operation: string,
  options: RedisOptions,
  evaluate: Commander["run"],
): () => Promise<void> | undefined {
  const { allowEviction = false, onWarning = warnOnConsole } = options;
  let validUntil = -Infinity;
  let running: Promise<void> | undefined;
  let differs = false;

  async function inspect(): Promise<void> {
    const startedAt = performance.now();
    const sentAt = Date.now();
    const answer = await evaluate(
      inspectScript,
      [leadKey(keyPrefix(options))],
      [leadLifeMs, allowEviction ? 0 : 1],
    );
    const waitedMs = performance.now() - startedAt;
    const [time, policy] = Array.isArray(answer) ? (answer as readonly unknown[]) : [];
    const redisAt = Number(time);
    if (!(redisAt > 0)) throw unreadable(operation);
    if (!allowEviction && policy !== "noeviction") throw mayEvict(operation, policy);
    const aheadMs = Math.max(sentAt - redisAt, 0) || Math.min(sentAt + waitedMs - redisAt, 0);
    if (Math.abs(aheadMs) > maxClockDriftMs) throw clockTooFarOff(operation, aheadMs);
    const differed = differs;
    differs = Math.abs(aheadMs) > clockSkewMs;
    if (differs && !differed) onWarning(clockWarning(operation, aheadMs));
    validUntil = performance.now() + inspectionMs;
  }

  return () => {
    if (performance.now() < validUntil) return undefined;
    running ??= inspect().finally(() => (running = undefined));
    return running;
  };
}

function warnOnConsole(message: string): void {
  console.warn(`sluice: ${message}`);
}

/** Whether node-redis closes this client for good at its `socketTimeout`, which its default strategy does. */
function endsAtTimeout(redis: RedisClient): boolean {
  const { options } = redis as {
    readonly options?: {
      readonly socket?: { readonly socketTimeout?: unknown; readonly reconnectStrategy?: unknown };
    };
  };
  const { socketTimeout, reconnectStrategy } = options?.socket ?? {};
  return Boolean(socketTimeout) && reconnectStrategy === undefined;
}

const endingClient =
  "node-redis closes a client for good at its socketTimeout: also pass socket.reconnectStrategy, such as (retries) => Math.min(50 * 2 ** retries, 2_000)";

/** Whether the client has closed for good. A pool of node-redis says it only in the error. */
function isClosed(redis: RedisClient, error: unknown): boolean {
  const { isOpen, status } = redis as { readonly isOpen?: unknown; readonly status?: unknown };
  if (isOpen === false || status === "end") return true;
  return error instanceof Error && error.message === "The client is closed";
}

/** How Redis refuses a write at its `maxmemory`, in a script of an old one with more words around it. */
function isFull(error: unknown): boolean {
  return error instanceof Error && /\bOOM command not allowed\b/.test(error.message);
}

/** Longer than clients wait: Redis stays full until records expire or its operator helps, so callers get the error at once. */
function full(operation: string, cause: unknown): SluiceError {
  return new SluiceError("unavailable", `${operation}: Redis is full; raise its maxmemory`, {
    cause,
    retryAfterMs: 120_000,
  });
}

function mayEvict(operation: string, policy: unknown): SluiceError {
  const finding = typeof policy === "string" && policy !== "" ? `is ${policy}` : "is unknown";
  return new SluiceError(
    "internal",
    `${operation}: Redis may evict what must be remembered: its maxmemory-policy ${finding}; set it to noeviction, or pass allowEviction: true`,
  );
}

function clockTooFarOff(operation: string, aheadMs: number): SluiceError {
  return new SluiceError(
    "internal",
    `${operation}: ${differenceOf(aheadMs)}, more than the ${maxClockDriftMs / 1_000} s within which Redis is used: synchronize the clocks (NTP)`,
  );
}

function differenceOf(aheadMs: number): string {
  const seconds = Math.round(Math.abs(aheadMs) / 1_000);
  return `the clock of this process is ${seconds} s ${aheadMs > 0 ? "ahead of" : "behind"} that of Redis`;
}

function clockWarning(operation: string, aheadMs: number): string {
  return `${operation}: ${differenceOf(aheadMs)}, and ${clockSkewMs / 1_000} s are allowed: URLs that it makes end at a wrong time; synchronize the clocks (NTP)`;
}

const inspectionMs = 60_000;
/** The longest life of a download URL, and the time in which a leading process is seen again. */
const leadLifeMs: number = tokenLifetimes.download.bound.maxTtlMs + inspectionMs;

type Send = (key: string, command: string[]) => Promise<unknown>;

/** How a client is given a command, and the key that says where it goes in a cluster. */
function senderOf(redis: RedisClient): Send | undefined {
  if ("call" in redis && typeof redis.call === "function")
    return (_key, [command, ...args]) => redis.call(command!, ...args);
  if (!("sendCommand" in redis && typeof redis.sendCommand === "function")) return undefined;
  if ("getSlotRandomNode" in redis) return (key, command) => redis.sendCommand(key, false, command);
  if ("getMasterNode" in redis) return (_key, command) => redis.sendCommand(false, command);
  return (_key, command) => redis.sendCommand(command);
}

/** How long a response is waited for, unless told: two commands, where a script was not known, included. */
export const defaultTimeoutMs = 2_000;

/** The error for a response that no script of ours gives. */
export function unreadable(operation: string): SluiceError {
  return new SluiceError("unavailable", `${operation}: an invalid response`, {
    retryAfterMs: 1_000,
  });
}
