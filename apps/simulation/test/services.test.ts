import type { Writable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { Life } from "../src/process/machine.ts";
import { Disk } from "../src/services/disk.ts";
import { Scripts } from "../src/services/lua.ts";
import { Network } from "../src/services/network.ts";
import { Programs } from "../src/services/programs.ts";
import { RedisData } from "../src/services/redis-data.ts";
import { inMacrotask } from "../src/run/simulate.ts";
import { SystemCalls } from "../src/services/system-calls.ts";
import { Faults } from "../src/world/faults.ts";
import { createRandom } from "../src/world/random.ts";
import { World } from "../src/world/world.ts";

test("random numbers of a text are the same on every machine", () => {
  const random = createRandom("a text");
  expect([random.int(0, 999), random.int(0, 999), random.int(0, 999)]).toEqual([161, 625, 695]);
});

describe("world", () => {
  test("events happen in the order of their times, and none of an owner that is over", () => {
    const world = new World("test");
    const seen: string[] = [];
    const owner = { isOver: false, enter: () => {} };
    world.after(20, () => seen.push("last"));
    world.after(10, () => (owner.isOver = true));
    world.after(10, () => seen.push("of the owner"), owner);
    world.after(5, () => seen.push("first"), owner);
    world.after(7, () => seen.push("cancelled"))();
    expect(world.run(() => seen.length === 2, 1_000)).toBe("done");
    expect(seen).toEqual(["first", "last"]);
    expect(world.now).toBe(20);
  });

  test("a fault that is left out changes no other one", () => {
    const strikes = (left: ReadonlySet<string>): string[] => {
      const faults = new Faults(new World("test"), left);
      faults.use({ "request lost": 0.5 });
      for (let at = 0; at < 20; at++) faults.strike("request lost", "c0");
      return faults.happened;
    };
    const all = strikes(new Set());
    const [first] = all;
    expect(strikes(new Set([first!]))).toEqual(all.slice(1));
  });
});

test("a process that was killed reaches nobody", async () => {
  const world = new World("test");
  const network = new Network(world, new Faults(world, new Set()));
  const requests: string[] = [];
  const answer = (request: Request): Promise<Response> => {
    requests.push(request.url);
    return Promise.resolve(new Response());
  };
  network.serve("https://a.sim", () => [{ name: "a", answer }]);
  const machine = { name: "c0" };
  const life = { name: "c0.1", machine, isOver: false, enter() {}, onEnd: () => () => {} };
  const fetch = network.fetchOf(life as unknown as Life);
  void fetch("https://a.sim/alive");
  life.isOver = true;
  void fetch("https://a.sim/killed");
  await inMacrotask(() => world.run(() => false, 1_000));
  expect(requests).toEqual(["https://a.sim/alive"]);
  expect(network.openConnections()).toBe(0);
});

describe("disk", () => {
  test("a power loss takes names and bytes that were not synced", () => {
    const world = new World("test");
    const disk = new Disk(world, new Faults(world, new Set()));
    const node = disk.create(0o600);
    disk.link("/tmp/a", node, "open");
    disk.sync(disk.find("/tmp")!);
    disk.write(node, Buffer.from("durable"), 0, "/tmp/a");
    disk.sync(node);
    disk.write(node, Buffer.from("!"), 7, "/tmp/a");
    disk.link("/tmp/b", disk.create(0o600), "open");
    const outcomes = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      disk.losePower(createRandom(`power ${seed}`));
      outcomes.add(node.bytes.toString());
    }
    expect([...outcomes].every((text) => text.startsWith("durable"))).toBe(true);
    expect(disk.find("/tmp/a")).toBe(node);
  });

  test("a full disk takes what fits, and then nothing", () => {
    const world = new World("test");
    const disk = new Disk(world, new Faults(world, new Set()));
    const node = disk.create(0o600);
    disk.freeBytes = 3;
    expect(disk.write(node, Buffer.from("12345"), 0, "a")).toBe(3);
    expect(() => disk.write(node, Buffer.from("45"), 3, "a")).toThrow("ENOSPC");
  });
});

describe("system calls", () => {
  function callsOf() {
    const world = new World("test");
    const disk = new Disk(world, new Faults(world, new Set()));
    const life = { name: "c0.1", wallMs: () => 7 } as unknown as Life;
    return { disk, life, calls: new SystemCalls(disk, life) };
  }

  test("a path through a descriptor leads to what it has open, and counts as open until it is closed", () => {
    const { disk, life, calls } = callsOf();
    disk.hasProc = true;
    calls.mkdir("/tmp/a");
    const folder = calls.open("/tmp/a");
    const file = calls.open(`/proc/self/fd/${folder}/b`, "wx");
    expect(calls.write(file, Buffer.from("bytes"))).toBe(5);
    expect(calls.readlink(`/proc/self/fd/${file}`)).toBe("/tmp/a/b");
    calls.unlink("/tmp/a/b");
    expect(calls.readlink(`/proc/self/fd/${file}`)).toBe("/tmp/a/b (deleted)");
    calls.rmdir("/tmp/a");
    expect(() => calls.open(`/proc/self/fd/${folder}/b`, "wx")).toThrow("ENOENT");
    expect(disk.openFiles(life)).toBe(2);
    for (const fd of [folder, file]) calls.close(fd);
    expect(disk.openFiles(life)).toBe(0);
  });

  test("a rename changes the time of the file and of the one that it replaces, and the names of neither", () => {
    const { disk, calls } = callsOf();
    const file = calls.open("/tmp/a", "w");
    const replaced = calls.open("/tmp/b", "w");
    disk.find("/tmp/a")!.changedMs = 0;
    calls.rename("/tmp/a", "/tmp/b");
    expect(calls.fstat(file)).toMatchObject({ ctimeMs: 7, nlink: 1 });
    expect(calls.fstat(replaced)).toMatchObject({ nlink: 0 });
    expect(() => calls.stat("/tmp/a")).toThrow("ENOENT");
  });
});

test("a program that exits fails what its pipe had no room for, and nothing that it had", async () => {
  const world = new World("test");
  const lines: string[] = [];
  const programs = new Programs(world, (program) => (line) => {
    lines.push(line);
    program.exit(1);
  });
  const machine = { name: "b0" };
  const life = { name: "b0.1", machine, pid: 1, isOver: false, enter() {}, onEnd: () => () => {} };
  const child = programs.spawnOf(life as unknown as Life)() as unknown as { stdin: Writable };
  const written: boolean[] = [];
  child.stdin.on("error", () => {});
  for (const line of ["first", "x".repeat(20_000)])
    child.stdin.write(`${line}\n`, (error) => written.push(!error));
  await inMacrotask(() => world.run(() => false, 60_000));
  expect(lines).toEqual(["first"]);
  expect(written).toEqual([true, false]);
  expect(programs.running).toEqual([]);
});

describe("redis", () => {
  test("runs a script as one step, with commands and their replies", () => {
    const data = new RedisData(() => 0);
    const scripts = new Scripts((command, args) => data.run(command, args));
    const text =
      "redis.call('HSET', KEYS[1], 'a', ARGV[1]) return {redis.call('HGET', KEYS[1], 'a'), 7, false}";
    expect(scripts.run("script", text, ["key"], ["value"])).toEqual(["value", 7, null]);
    expect(() => scripts.run("other", "return redis.call('NEVER')", [], [])).toThrow(
      "unknown command",
    );
  });

  test.each<[string, readonly (readonly string[])[], unknown]>([
    [
      "a key that ends",
      [
        ["SET", "k", "v", "PX", "5"],
        ["PTTL", "k"],
      ],
      5,
    ],
    [
      "a range by rank",
      [
        ["ZADD", "z", "2", "b"],
        ["ZADD", "z", "1", "a"],
        ["ZRANGE", "z", "0", "-1"],
      ],
      ["a", "b"],
    ],
    [
      "a range with scores",
      [
        ["ZADD", "z", "1", "a"],
        ["ZRANGE", "z", "0", "0", "WITHSCORES"],
      ],
      ["a", "1"],
    ],
    [
      "a limit",
      [
        ["ZADD", "z", "1", "a"],
        ["ZRANGEBYSCORE", "z", "-inf", "5", "LIMIT", "0", "1"],
      ],
      ["a"],
    ],
    [
      "a counter",
      [
        ["HINCRBY", "h", "n", "4"],
        ["HINCRBY", "h", "n", "-1"],
      ],
      3,
    ],
    [
      "an empty hash",
      [
        ["HSET", "h", "a", "1"],
        ["HDEL", "h", "a"],
        ["EXISTS", "h"],
      ],
      0,
    ],
    [
      "a list",
      [
        ["RPUSH", "l", "a", "b", "c"],
        ["LRANGE", "l", "1", "-1"],
      ],
      ["b", "c"],
    ],
  ])("answers as Redis does: %s", (_what, commands, reply) => {
    const data = new RedisData(() => 0);
    const replies = commands.map(([command = "", ...args]) => data.run(command, args));
    expect(replies.at(-1)).toEqual(reply);
  });
});
