/** What a command gives: as in RESP, without the difference of simple and bulk strings. */
export type Reply = string | number | null | readonly Reply[];

interface Entry {
  value: string | Map<string, string> | Map<string, number> | string[];
  /** By the clock of Redis; absent if it stays. */
  expiresAt?: number;
}

/** The data of a Redis, and the commands that the product's scripts use. */
export class RedisData {
  readonly #now: () => number;
  readonly #entries: Map<string, Entry> = new Map();

  constructor(now: () => number) {
    this.#now = now;
  }

  keys(): string[] {
    return [...this.#entries.keys()];
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }

  /** Runs a command about data. Throws, as Redis answers, for one that it has not. */
  run(command: string, args: readonly string[]): Reply {
    const run = this.#commands[command];
    if (!run) throw new Error(`ERR unknown command '${command}'`);
    return run(args[0] ?? "", args.slice(1));
  }

  #find(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry?.expiresAt === undefined || entry.expiresAt > this.#now()) return entry;
    this.#entries.delete(key);
    return undefined;
  }

  #text(key: string): string | undefined {
    return this.#find(key)?.value as string | undefined;
  }

  #hash(key: string): Map<string, string> | undefined {
    return this.#find(key)?.value as Map<string, string> | undefined;
  }

  #scores(key: string): Map<string, number> | undefined {
    return this.#find(key)?.value as Map<string, number> | undefined;
  }

  #list(key: string): string[] | undefined {
    return this.#find(key)?.value as string[] | undefined;
  }

  #made<Value extends Entry["value"]>(key: string, make: () => Value): Value {
    const entry = this.#find(key) ?? { value: make() };
    this.#entries.set(key, entry);
    return entry.value as Value;
  }

  /** Members by score, then by name. */
  #sorted(key: string): [string, number][] {
    return [...(this.#scores(key) ?? [])].toSorted(
      ([a, first], [b, second]) => first - second || (a < b ? -1 : 1),
    );
  }

  #removeFrom(key: string, names: readonly string[]): number {
    const members = this.#find(key)?.value as Map<string, unknown> | undefined;
    const removed = names.filter((name) => members?.delete(name)).length;
    if (members?.size === 0) this.#entries.delete(key);
    return removed;
  }

  #add(key: string, amount: number): number {
    const entry = this.#find(key) ?? { value: "0" };
    const sum = Number(entry.value) + amount;
    entry.value = String(sum);
    this.#entries.set(key, entry);
    return sum;
  }

  readonly #commands: Readonly<Record<string, (key: string, args: readonly string[]) => Reply>> = {
    GET: (key) => this.#text(key) ?? null,
    SET: (key, [value = "", ...options]) => {
      const entry: Entry = { value };
      const at = options.findIndex((option) => option.toUpperCase() === "PX");
      if (at >= 0) entry.expiresAt = this.#now() + lifeOf(options[at + 1]);
      this.#entries.set(key, entry);
      return "OK";
    },
    DEL: (key, more) => {
      const found = [key, ...more].filter((each) => this.#find(each));
      for (const each of found) this.#entries.delete(each);
      return found.length;
    },
    EXISTS: (key) => (this.#find(key) ? 1 : 0),
    PEXPIRE: (key, [ms]) => {
      const entry = this.#find(key);
      if (!entry) return 0;
      if (Number(ms) <= 0) this.#entries.delete(key);
      else entry.expiresAt = this.#now() + Number(ms);
      return 1;
    },
    PTTL: (key) => {
      const entry = this.#find(key);
      if (!entry) return -2;
      return entry.expiresAt === undefined ? -1 : Math.round(entry.expiresAt - this.#now());
    },
    INCR: (key) => this.#add(key, 1),
    INCRBY: (key, [amount]) => this.#add(key, Number(amount)),
    DECRBY: (key, [amount]) => this.#add(key, -Number(amount)),
    HSET: (key, pairs) => {
      const hash = this.#made(key, () => new Map<string, string>());
      const before = hash.size;
      for (let at = 0; at < pairs.length; at += 2) hash.set(pairs[at]!, pairs[at + 1]!);
      return hash.size - before;
    },
    HGET: (key, [field = ""]) => this.#hash(key)?.get(field) ?? null,
    HMGET: (key, fields) => fields.map((field) => this.#hash(key)?.get(field) ?? null),
    HGETALL: (key) => [...(this.#hash(key) ?? [])].flat(),
    HLEN: (key) => this.#hash(key)?.size ?? 0,
    HEXISTS: (key, [field = ""]) => (this.#hash(key)?.has(field) ? 1 : 0),
    HDEL: (key, fields) => this.#removeFrom(key, fields),
    HINCRBY: (key, [field = "", amount]) => {
      const hash = this.#made(key, () => new Map<string, string>());
      const sum = Number(hash.get(field) ?? 0) + Number(amount);
      hash.set(field, String(sum));
      return sum;
    },
    ZADD: (key, [score, member = ""]) => {
      const scores = this.#made(key, () => new Map<string, number>());
      const added = scores.has(member) ? 0 : 1;
      scores.set(member, scoreOf(score));
      return added;
    },
    ZREM: (key, members) => this.#removeFrom(key, members),
    ZCARD: (key) => this.#scores(key)?.size ?? 0,
    ZSCORE: (key, [member = ""]) => {
      const score = this.#scores(key)?.get(member);
      return score === undefined ? null : String(score);
    },
    ZREMRANGEBYSCORE: (key, [low, high]) =>
      this.#removeFrom(
        key,
        this.#sorted(key)
          .filter(([, score]) => score >= scoreOf(low) && score <= scoreOf(high))
          .map(([member]) => member),
      ),
    ZRANGE: (key, [from, to, ...options]) => {
      const members = slice(this.#sorted(key), Number(from), Number(to));
      const hasScores = options.some((option) => option.toUpperCase() === "WITHSCORES");
      return members.flatMap(([member, score]) => (hasScores ? [member, String(score)] : [member]));
    },
    ZRANGEBYSCORE: (key, [low, high, ...options]) => {
      const members = this.#sorted(key)
        .filter(([, score]) => score >= scoreOf(low) && score <= scoreOf(high))
        .map(([member]) => member);
      const at = options.findIndex((option) => option.toUpperCase() === "LIMIT");
      if (at < 0) return members;
      const [skip = 0, count = 0] = options.slice(at + 1).map(Number);
      return members.slice(skip, skip + count);
    },
    RPUSH: (key, values) => this.#made<string[]>(key, () => []).push(...values),
    LLEN: (key) => this.#list(key)?.length ?? 0,
    LINDEX: (key, [at]) => this.#list(key)?.at(Number(at)) ?? null,
    LRANGE: (key, [from, to]) => slice(this.#list(key) ?? [], Number(from), Number(to)),
  };
}

function lifeOf(ms: string | undefined): number {
  if (Number(ms) > 0) return Number(ms);
  throw new Error("ERR invalid expire time in 'set' command");
}

function scoreOf(text = ""): number {
  if (text === "-inf") return -Infinity;
  return text === "+inf" ? Infinity : Number(text);
}

/** Both ends included, and counted from the end if they are negative. */
function slice<T>(list: readonly T[], from: number, to: number): T[] {
  const place = (at: number): number => (at < 0 ? Math.max(0, list.length + at) : at);
  return list.slice(place(from), to < 0 ? list.length + to + 1 : to + 1);
}
