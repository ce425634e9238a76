import { describe, expect, test } from "vitest";
import type { ChangeBatch, StorageBackend } from "@sluice/storage";
import { createNotifications } from "@sluice/storage-graph";
import { DeltaTree } from "../src/lib/watch.ts";
import type { DriveItem } from "../src/lib/drive-item.ts";
import { startEmulated } from "./emulated.ts";

function startWatch(backend: StorageBackend, options: { prefix?: string; cursor?: string } = {}) {
  const caller = new AbortController();
  const batches = backend.watch?.({ ...options, signal: caller.signal })[Symbol.asyncIterator]();
  if (batches === undefined) throw new Error("there is no watch");
  return { caller, next: async (): Promise<ChangeBatch> => (await batches.next()).value };
}

test("a folder that is renamed or removed takes its files along", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a/b/1.txt", "1");
  graph.drive.put("a/b/2.txt", "2");
  const { caller, next } = startWatch(graph.backend);
  await next();
  graph.drive.rename("a/b", "c");
  const renamed = await next();
  expect(renamed.changed?.toSorted()).toEqual(["a/c/1.txt", "a/c/2.txt"]);
  expect(renamed.removed?.toSorted()).toEqual(["a/b/1.txt", "a/b/2.txt"]);
  graph.drive.remove("a");
  expect((await next()).removed?.toSorted()).toEqual(["a/c/1.txt", "a/c/2.txt"]);
  caller.abort();
});

test("changes outside the root are not reported", async () => {
  await using graph = await startEmulated({ root: { path: "in" } });
  graph.drive.putFolder("in");
  const { caller, next } = startWatch(graph.backend);
  await next();
  graph.drive.put("out/a.txt", "x");
  graph.drive.put("in/a.txt", "x");
  expect(await next()).toMatchObject({ changed: ["a.txt"], removed: [] });
  caller.abort();
});

test("G20: changes that the service forgot are a reset, and the watch continues", async () => {
  await using graph = await startEmulated();
  const { caller, next } = startWatch(graph.backend);
  await next();
  graph.drive.put("a.txt", "x");
  graph.emulator.forgetChanges();
  expect((await next()).reset).toBe(true);
  graph.drive.put("b.txt", "x");
  expect((await next()).changed).toEqual(["b.txt"]);
  caller.abort();
});

test("a cursor reports files changed since; a removed one is a reset", async () => {
  await using graph = await startEmulated();
  graph.drive.put("removed.txt", "x");
  const first = startWatch(graph.backend);
  const { cursor = "" } = await first.next();
  first.caller.abort();
  graph.drive.put("changed.txt", "x");
  const second = startWatch(graph.backend, { cursor });
  expect((await second.next()).changed).toBe(undefined);
  expect((await second.next()).changed).toEqual(["changed.txt"]);
  second.caller.abort();
  graph.drive.remove("removed.txt");
  const third = startWatch(graph.backend, { cursor });
  await third.next();
  expect((await third.next()).reset).toBe(true);
  third.caller.abort();
  const foreign = startWatch(graph.backend, { cursor: `${cursor}0` });
  await expect(foreign.next()).rejects.toMatchObject({ code: "invalid_argument" });
});

test("a service that fails for a moment is asked again later; one that refuses ends the watch", async () => {
  await using graph = await startEmulated();
  const { next } = startWatch(graph.backend);
  await next();
  graph.emulator.fault({ on: /delta\?token/, status: 503 });
  graph.drive.put("a.txt", "x");
  expect((await next()).changed).toEqual(["a.txt"]);
  graph.emulator.fault({ on: /delta\?token/, status: 403, times: 2 });
  await expect(next()).rejects.toMatchObject({ code: "permission_denied" });
});

test("a service that asks for a pause of many years is not asked again and again", async () => {
  await using graph = await startEmulated();
  const { caller, next } = startWatch(graph.backend);
  await next();
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): void => void warnings.push(name);
  process.on("warning", onWarning);
  graph.emulator.fault({ on: /delta\?token/, status: 503, retryAfter: "9999999999", times: 99 });
  const ending = next();
  const countLooks = () => graph.sent("graph").filter((line) => /delta\?token/.test(line)).length;
  await expect.poll(countLooks).toBeGreaterThan(0);
  await graph.backend.list();
  expect([countLooks(), warnings]).toEqual([1, []]);
  process.off("warning", onWarning);
  caller.abort();
  await ending;
});

test("a drive whose changes never end does not fill the memory", async () => {
  await using graph = await startEmulated();
  const again = `${graph.emulator.origins.graph}/v1.0/drives/x/root/delta?again`;
  const json = { value: Array.from({ length: 30_000 }, () => ({})), "@odata.nextLink": again };
  graph.emulator.fault({ on: /delta/, json, times: 20 });
  await expect(startWatch(graph.backend).next()).rejects.toMatchObject({ code: "too_large" });
  expect(graph.sent("graph").filter((line) => line.includes("delta"))).toHaveLength(4);
});

const file = (id: string, name?: string, parent = "root"): DriveItem => ({
  id,
  ...(name !== undefined && { name, parentReference: { id: parent } }),
  file: {},
});

describe("G20: changes as they come", () => {
  const none = { changed: [], removed: [], isLost: false };

  test("an item may come twice: the last time counts", () => {
    const tree = new DeltaTree("root", "");
    expect(tree.apply([file("1", "old.txt"), file("1", "new.txt")])).toEqual({
      ...none,
      changed: ["new.txt"],
    });
  });

  test("an item without a name is the one that is known by its id", () => {
    const tree = new DeltaTree("root", "");
    tree.apply([file("1", "a.txt")]);
    expect(tree.apply([file("1")])).toEqual({ ...none, changed: ["a.txt"] });
    expect(tree.apply([{ id: "1", deleted: {} }])).toEqual({ ...none, removed: ["a.txt"] });
  });

  test("an unknown one is not a crash but a loss", () => {
    const tree = new DeltaTree("root", "");
    expect(tree.apply([file("9")])).toEqual({ ...none, isLost: true });
    expect(tree.apply([{ id: "8", deleted: {} }])).toEqual({ ...none, isLost: true });
    expect(tree.apply([{}, { id: "7", name: "x", root: {} }])).toEqual(none);
  });

  test("children may come before their folder, and a cycle of folders ends", () => {
    const tree = new DeltaTree("root", "");
    const folder = { id: "f", name: "f", parentReference: { id: "root" }, folder: {} };
    expect(tree.apply([file("1", "a.txt", "f"), folder])).toEqual({
      ...none,
      changed: ["f/a.txt"],
    });
    const circle = [
      { id: "x", name: "x", parentReference: { id: "y" }, folder: {} },
      { id: "y", name: "y", parentReference: { id: "x" }, folder: {} },
    ];
    expect(tree.apply([...circle, file("2", "b.txt", "x")])).toEqual(none);
  });

  test("a file that is replaced by another of its name is changed, not removed", () => {
    const tree = new DeltaTree("root", "");
    tree.apply([file("1", "a.txt")]);
    expect(tree.apply([{ id: "1", deleted: {} }, file("2", "a.txt")])).toEqual({
      ...none,
      changed: ["a.txt"],
    });
  });

  test("more than 100,000 items are too_large", { tags: "slow" }, () => {
    const tree = new DeltaTree("root", "");
    const items = Array.from({ length: 100_001 }, (_, n) => file(String(n), `${n}.txt`));
    expect(() => tree.apply(items)).toThrowError(expect.objectContaining({ code: "too_large" }));
  });
});

const clientState = "only Graph knows this";
const url = "https://receiver.example/graph";
const post = (body: string, query = ""): Request =>
  new Request(`${url}${query}`, { method: "POST", body });
const notification = (state: unknown): string =>
  JSON.stringify({ value: [{ clientState: state, resource: "drives/x/root" }] });

describe("G29: the receiving end of a subscription", () => {
  test("the token of the handshake comes back decoded, as plain text", async () => {
    const receiver = createNotifications({ clientState });
    const answer = await receiver.handle(post("", "?validationToken=Validation%3A+a%2Bb+%3Cb%3E"));
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/plain");
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    expect(await answer.text()).toBe("Validation: a+b <b>");
  });

  test("a notification with the secret is accepted and passed on; others are not", async () => {
    const receiver = createNotifications({ clientState });
    let changes = 0;
    const stop = receiver.onChange(() => changes++);
    for (const state of ["another", undefined, 1, `${clientState} `])
      expect((await receiver.handle(post(notification(state)))).status).toBe(403);
    expect((await receiver.handle(post("not JSON"))).status).toBe(400);
    expect((await receiver.handle(post('{"value":1}'))).status).toBe(400);
    expect((await receiver.handle(post("x".repeat(1024 * 1024 + 1)))).status).toBe(413);
    expect((await receiver.handle(new Request(url))).status).toBe(405);
    expect(changes).toBe(0);
    expect((await receiver.handle(post(notification(clientState)))).status).toBe(202);
    expect(changes).toBe(1);
    stop();
    await receiver.handle(post(notification(clientState)));
    expect(changes).toBe(1);
  });

  test("G30: a notified watch looks at once, and what came before the subscription is not lost", async () => {
    const notifications = createNotifications({ clientState });
    await using graph = await startEmulated({ notifications, watchIntervalMs: 3_600_000 });
    const { caller, next } = startWatch(graph.backend);
    await next();
    // between the delta link and the subscription
    graph.drive.put("early.txt", "x");
    const change = next();
    graph.drive.put("late.txt", "x");
    expect((await notifications.handle(post(notification(clientState)))).status).toBe(202);
    expect((await change).changed).toEqual(["early.txt", "late.txt"]);
    caller.abort();
  });
});
