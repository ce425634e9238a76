import { createHash } from "node:crypto";
import { SluiceError } from "@sluice/core";
import { systemClock, within } from "@sluice/core/async";

/**
 * A client of a Redis server, or of one that speaks its protocol: ioredis (`call`) and node-redis
 * (`sendCommand`) are ones. It is the caller's: connect it before, close it after.
 */
export type RedisClient =
  | { call(command: string, ...args: string[]): Promise<unknown> }
  | { sendCommand(command: string[]): Promise<unknown> };

/** Options of everything that is kept in Redis. */
export interface RedisOptions {
  readonly redis: RedisClient;
  /**
   * What every key begins with. Default: `{sluice}:`: the braces keep all of them on one node of a
   * cluster, where scripts need them.
   */
  readonly prefix?: string;
  /**
   * Longest wait for an answer in milliseconds, from 1 to 60,000; then the store counts as down. Default: 2,000.
   */
  readonly timeoutMs?: number;
}

/** A Lua script, which Redis runs as one step that nothing comes between. */
export interface Script {
  readonly lua: string;
  readonly sha1: string;
}

/** Names a script by its digest, as `EVALSHA` wants it. */
export function createScript(lua: string): Script {
  return { lua, sha1: createHash("sha1").update(lua).digest("hex") };
}

/** Sends commands. What Redis does not answer in time, or answers with an error, is `unavailable`. */
export interface Commander {
  send(command: string, ...args: string[]): Promise<unknown>;
  /** Runs a script, which Redis is given once and remembers. */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown>;
}

/** Makes a commander of a client; a `TypeError` for what is none, a `RangeError` for a wait out of bounds. */
export function createCommander(
  operation: string,
  { redis, timeoutMs = defaultTimeoutMs }: RedisOptions,
): Commander {
  const sendTo = senderOf(redis);
  if (!sendTo) throw new TypeError(`${operation}: redis must be a client of ioredis or node-redis`);
  if (!(timeoutMs >= 1 && timeoutMs <= 60_000))
    throw new RangeError(`${operation}: timeoutMs must be from 1 to 60000`);

  async function ask(command: string, args: readonly string[]): Promise<unknown> {
    return sendTo!([command, ...args]);
  }

  async function answered(work: Promise<unknown>): Promise<unknown> {
    try {
      return await within(work, {
        clock: systemClock,
        timeoutMs,
        expired: () => new Error(`no answer within ${timeoutMs} ms`),
      });
    } catch (error) {
      throw new SluiceError("unavailable", `${operation}: Redis does not answer as it should`, {
        cause: error,
        retryAfterMs: 1_000,
      });
    }
  }

  async function evaluate(script: Script, rest: readonly string[]): Promise<unknown> {
    try {
      return await ask("EVALSHA", [script.sha1, ...rest]);
    } catch (error) {
      // a server that was restarted, or was never given it
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return ask("EVAL", [script.lua, ...rest]);
    }
  }

  return {
    send: (command, ...args) => answered(ask(command, args)),
    run: (script, keys, args) =>
      answered(evaluate(script, [String(keys.length), ...keys, ...args.map(String)])),
  };
}

function senderOf(redis: RedisClient): ((command: string[]) => Promise<unknown>) | undefined {
  if ("call" in redis && typeof redis.call === "function")
    return ([command, ...args]) => redis.call(command!, ...args);
  if ("sendCommand" in redis && typeof redis.sendCommand === "function")
    return (command) => redis.sendCommand(command);
  return undefined;
}

/** How long an answer is waited for, unless told: two commands, where a script was not known, included. */
export const defaultTimeoutMs = 2_000;

/** What every key begins with, unless told. */
export const defaultPrefix = "{sluice}:";

/** Redis forgets a key so much later than it may: clocks differ, and what is over is found to be over anyway. */
export const graceMs = 60_000;

/** For how long Redis keeps the key of something that ends then, in milliseconds. */
export function lifeOf(now: number, expiresAt: number): number {
  return Math.max(1, expiresAt - now) + graceMs;
}

/** The error for an answer that no script of ours gives. */
export function unreadable(operation: string): SluiceError {
  return new SluiceError("unavailable", `${operation}: an answer that is none`, {
    retryAfterMs: 1_000,
  });
}
