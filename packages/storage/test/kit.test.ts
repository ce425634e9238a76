import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { SluiceError } from "@sluice/core";
import { createMemoryBackend, type Overrides, wrapBackend } from "@sluice/storage";
import {
  checkBackend,
  checkRule,
  createLargeContent,
  defineBackendTests,
  type Finding,
  type Fixture,
  formatReport,
  type Rule,
  conformanceRules,
} from "@sluice/storage/conformance";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createFixture } from "./fixture.ts";

// a rejection that nobody handles is the subject of one test; the runner need not see it
let others: NodeJS.UnhandledRejectionListener[];
beforeEach(() => {
  others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
});
afterEach(() => {
  for (const listener of others) process.on("unhandledRejection", listener);
  vi.restoreAllMocks();
});

/** Our own rule, to see how the kit runs its check. */
function ruleOf(check: Rule["check"], needs: Rule["needs"] = []): Rule {
  return { id: "kit-test", sentence: "a rule for this test", needs, check };
}

function reasonOf(finding: Finding): unknown {
  if (finding.outcome === "broken") return (finding.error as Error).message;
  return finding.outcome === "absent" ? finding.reason : undefined;
}

test("a rule whose operation, hook or fault is not there is absent, and says so", async () => {
  const { why: _, ...fixture } = createFixture();
  const outcomes = [];
  for (const need of ["backend.presign", "fixture.alias", "fault.reset"] as const)
    outcomes.push(
      reasonOf(
        await checkRule(
          ruleOf(async () => {}, [need]),
          () => fixture,
        ),
      ),
    );
  expect(outcomes).toEqual([
    "the backend has no presign",
    "the fixture has no alias",
    'the fixture cannot cause "reset"',
  ]);
});

test.each([
  ["describe-facts", "size", "withoutSize"],
  ["describe-etag-stable", "etag", "withoutEtag"],
  ["describe-etag-changes", "etag", "withoutEtag"],
  ["open-encoded", "contentEncoding", "withoutCoding"],
] as const)("%s without %s names the call and the trait %s", async (id, member, trait) => {
  const without = <T extends object>(info: T): T => ({ ...info, [member]: undefined });
  const finding = await checkRule(
    conformanceRules.find((rule) => rule.id === id)!,
    () => {
      const fixture = createFixture();
      const backend = wrapBackend(fixture.backend, {
        describe:
          (describe) =>
          async (...args) =>
            without(await describe(...args)),
        open:
          (open) =>
          async (...args) => {
            const opened = await open(...args);
            return { ...opened, info: without(opened.info) };
          },
      });
      return { ...fixture, backend };
    },
  );
  const call = /^(describe|open)\("\w+\.\w+"\) has no (\w+); .* traits: \{ (\w+): true \}$/;
  const [, , named, declared] = call.exec(String(reasonOf(finding))) ?? [];
  expect([named, declared]).toEqual([member, trait]);
});

test("a fixture can give the reason itself, for one fault or for all", async () => {
  const why = { alias: "one name", faults: "no network", deny: "no permissions" };
  const fixture = (): Fixture => ({ ...createFixture(), why });
  const outcomes = [];
  for (const need of ["fixture.alias", "fault.reset", "fault.deny"] as const)
    outcomes.push(
      reasonOf(
        await checkRule(
          ruleOf(async () => {}, [need]),
          fixture,
        ),
      ),
    );
  expect(outcomes).toEqual(["one name", "no network", "no permissions"]);
});

test("a rule is broken by a handle that stays open", async () => {
  let handles = 0;
  const finding = await checkRule(
    ruleOf(async () => void handles++),
    () => ({ ...createFixture(), countHandles: () => handles }),
  );
  expect(reasonOf(finding)).toBe("1 handles are still open");
});

test("a rule is broken by an unhandled rejection", async () => {
  const finding = await checkRule(
    ruleOf(async () => {
      void Promise.reject(new Error("nobody cares"));
      await wait(1);
    }),
    createFixture,
  );
  expect(reasonOf(finding)).toBe("an unhandled rejection: Error: nobody cares");
});

test("a rule is broken by its deadline, and its fixture is disposed of", async () => {
  const dispose = vi.fn<() => Promise<void>>(async () => {});
  const finding = await checkRule(
    ruleOf(() => new Promise(() => {})),
    () => ({ ...createFixture(), dispose }),
    { deadlineMs: 10 },
  );
  expect(reasonOf(finding)).toBe("it did not end within 10 ms");
  expect(dispose).toHaveBeenCalledOnce();
});

test("rules are chosen by name or by the beginning of their names, and an unknown one is an error", async () => {
  const findings = await checkBackend(createFixture, { only: ["list-limit", "describe"] });
  const ids = findings.map(({ rule }) => rule.id);
  expect(ids).toEqual([
    ...conformanceRules.filter(({ id }) => id.startsWith("describe-")).map(({ id }) => id),
    "list-limit",
    "list-limit-malformed",
  ]);
  await expect(checkBackend(createFixture, { only: ["descr"] })).rejects.toThrow(TypeError);
});

test("an abort ends the check with the signal's reason", async () => {
  const reason = new Error("enough");
  const signal = AbortSignal.abort(reason);
  await expect(checkBackend(createFixture, { signal })).rejects.toBe(reason);
});

test("a report has a line for every rule, the reason below, and a count", async () => {
  const backend = wrapBackend(createMemoryBackend(), {
    describe: (describe) => async (key) => ({
      ...(await describe(key)),
      lastModified: new Date(0),
    }),
  });
  const { put: _, ...fixture } = createFixture();
  const findings = await checkBackend(() => ({ ...fixture, backend, put: async () => {} }), {
    only: ["describe-facts", "list-empty", "presign-get"],
  });
  expect(formatReport(findings).split("\n")).toEqual([
    "✗ describe-facts: describe gives the key and the size; a time of the last change that it gives is right",
    expect.stringMatching(/^ {4}broken: /),
    "✓ list-empty: an empty store lists no objects, and no cursor in the end",
    "– presign-get: a GET of the URL gives the bytes without credentials, whatever signs are in the key",
    "    absent: the backend has no presign",
    "",
    "1 kept · 1 broken · 1 absent",
  ]);
});

test("a report shows the value that was wrong, and what was due", async () => {
  const texts = [
    () => assert.equal("b.txt", "a.txt", "the key"),
    () => assert.equal("b.txt", "a.txt"),
    () => assert.deepEqual(["a", "😀"], ["a"], "with pages of 2"),
    () => assert.notEqual("e1", "e1", "the etag"),
    () => assert.ok(false, "12 objects for a limit of 7"),
    () => assert.match('"e1"', /^e/),
    () => assert.doesNotMatch("text/html", /html/, "a.html"),
    () => assert.equal("x".repeat(5_000), ""),
  ].map(async (check) => {
    const finding = await checkRule(
      ruleOf(async () => check()),
      createFixture,
    );
    return formatReport([finding]).split("\n")[1];
  });
  expect(await Promise.all(texts)).toEqual([
    "    broken: the key: 'b.txt' where 'a.txt' is due",
    "    broken: 'b.txt' where 'a.txt' is due",
    "    broken: with pages of 2: [ 'a', '😀' ] where [ 'a' ] is due",
    "    broken: the etag: 'e1' where anything but 'e1' is due",
    "    broken: 12 objects for a limit of 7",
    "    broken: '\"e1\"' where /^e/ is due",
    "    broken: a.html: 'text/html' where anything but /html/ is due",
    expect.stringMatching(/^ {4}broken: 'x{200}'\.\.\. 4800 more characters where '' is due$/),
  ]);
});

test("a message names the call, and the code that is due", async () => {
  const { backend, ...fixture } = createFixture();
  const broken = wrapBackend(backend, {
    describe: () => async () => {
      throw new Error("map: it is not there");
    },
    open:
      (open) =>
      (key, { ifMatch: _forgotten, ...options } = {}) =>
        open(key, options),
    list: () => () => {
      throw new SluiceError("invalid_argument", "memory: list: no");
    },
    write:
      (write) =>
      (key, { size: _forgotten, ...options } = {}) =>
        write(key.slice(0, 1000), options),
    remove: () => async () => {
      throw new SluiceError("unavailable", "memory: remove: no");
    },
  });
  const findings = await checkBackend(() => ({ ...fixture, backend: broken }), {
    only: [
      "describe-missing",
      "condition-range",
      "list-limit-malformed",
      "write-size",
      "remove-key",
    ],
  });
  expect(findings.map((finding) => `${finding.rule.id}: ${String(reasonOf(finding))}`))
    .toMatchInlineSnapshot(`
    [
      "describe-missing: describe("missing.txt") rejected with an error without a code (Error: map: it is not there) where not_found is due",
      "condition-range: map: it is not there",
      "list-limit-malformed: list({ limit: 0 }) threw instead of rejecting: SluiceError: memory: list: no",
      "write-size: write("size.bin", { size: 999 }).commit() resolved where invalid_argument is due",
      "remove-key: remove("") rejected with unavailable where invalid_argument is due",
    ]
  `);
});

test("a race of two writers tells how many won, and why others did not", async () => {
  const outcomes = [];
  const unconditional: Overrides = {
    write:
      (write) =>
      (key, { ifAbsent: _forgotten, ...options } = {}) =>
        write(key, options),
  };
  const failing: Overrides = {
    write: (write) => async (key, options) => ({
      ...(await write(key, options)),
      commit: async () => {
        throw new SluiceError("unavailable", "memory: write: no");
      },
    }),
  };
  for (const overrides of [unconditional, failing]) {
    const { backend, ...fixture } = createFixture();
    const broken = { ...fixture, backend: wrapBackend(backend, overrides) };
    const [finding] = await checkBackend(() => broken, { only: ["write-race"] });
    outcomes.push(finding && reasonOf(finding));
  }
  expect(outcomes).toEqual([
    "2 of 2 writers won where 1 has to",
    "0 of 2 writers won where 1 has to; rejected: unavailable, unavailable",
  ]);
});

test("a message shows a long key cut, with its length", async () => {
  const { backend, ...fixture } = createFixture();
  const broken = {
    ...fixture,
    backend: wrapBackend(backend, {
      describe: (describe) => (key, options) => describe(key.slice(0, 99), options),
    }),
  };
  const [finding] = await checkBackend(() => broken, { only: ["key-length"] });
  expect(finding && reasonOf(finding)).toBe(
    `describe("${"a/".repeat(30)}…" of 1025 characters) rejected with not_found where invalid_argument is due`,
  );
});

test("a broken rule fails as a test, and an absent one is printed and skipped", async () => {
  const printed = vi.spyOn(console, "info").mockImplementation(() => {});
  const tests = new Map<string, (context: { skip?(reason?: string): unknown }) => Promise<void>>();
  defineBackendTests((name, run) => tests.set(name.split(":")[0] ?? "", run), createFixture);
  expect([...tests.keys()]).toEqual(conformanceRules.map(({ id }) => id));
  const skip = vi.fn<(reason?: string) => void>();
  await tests.get("open-bytes")?.({ skip });
  expect(skip).not.toHaveBeenCalled();
  await tests.get("presign-get")?.({ skip });
  expect(skip).toHaveBeenCalledWith("the backend has no presign");
  expect(printed).toHaveBeenCalledWith("absent: presign-get: the backend has no presign");

  defineBackendTests(
    (name, run) => tests.set(name.split(":")[0] ?? "", run),
    () => {
      const fixture = createFixture();
      return { ...fixture, backend: { ...fixture.backend, name: "other" } };
    },
  );
  await expect(tests.get("failure-message")?.({ skip })).rejects.toThrow(
    "does not name the backend",
  );
});

test("large content is zeros, with the tail at its very end", () => {
  const content = createLargeContent(2 ** 40, new Uint8Array([1, 2, 3]));
  const { size } = content;
  expect(size).toBe(2 ** 40);
  expect(content.read(size - 5, size)).toEqual(new Uint8Array([0, 0, 1, 2, 3]));
  expect(content.read(size - 2, size - 1)).toEqual(new Uint8Array([2]));
  expect(content.read(0, 2)).toEqual(new Uint8Array(2));
});
