import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";
import type { Reporter } from "vitest/node";

/** Ends the run with one plain line that any CI can read, after one on slow tests that were left out. */
const plainLine: Reporter = {
  onTestRunEnd(modules) {
    const n = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    let slow = 0;
    for (const m of modules)
      for (const t of m.children.allTests()) {
        const { state } = t.result();
        n[state]++;
        if (state === "skipped" && t.tags.includes("slow")) slow++;
      }
    if (process.argv.includes("--tags-filter=!slow"))
      process.stdout.write(`${slow} of the skipped are slow tests: npm run test:slow\n`);
    process.stdout.write(`${n.passed} passed, ${n.failed} failed, ${n.skipped} skipped\n`);
  },
};

/** Tests that replace a module, which others in the same process have loaded already. */
const replacingModules = ["packages/storage-fs/test/identity.test.ts"];

declare module "vitest" {
  interface ProvidedContext {
    /** Path of each compiled program by the path of its source in this repository. */
    readonly programs: Readonly<Record<string, string>>;
  }
}

export default defineConfig({
  // workspace packages resolve to their TypeScript source: tests need no build. Workers get these
  // for require() too, so "import" has no place here: CommonJS packages would load ES modules
  ssr: { resolve: { conditions: ["@sluice/source", "node"] } },
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: "together",
          include: [
            "packages/*/test/**/*.test.ts",
            "apps/*/test/**/*.test.ts",
            "e2e/**/*.test.ts",
            "tools/test/*.test.mjs",
          ],
          exclude: [...configDefaults.exclude, ...replacingModules],
          // a process and the modules in it are taken over by the next file: loading them for each
          // file again would be half of all the work
          isolate: false,
          globalSetup: "tools/test-programs.mjs",
          setupFiles: "tools/test-traces.mjs",
        },
      },
      { extends: true, test: { name: "alone", include: replacingModules } },
    ],
    environment: "node",
    // `npm test` leaves them out, `npm run test:slow` runs them alone: `{ tags: "slow" }` behind the title of a
    // test, or `// @module-tag slow` as the first line of a file
    tags: [{ name: "slow", description: "costs much CPU: browsers, processes, large files" }],
    // what was transformed once is kept for the next run
    experimental: { fsModuleCache: true },
    // far more than they need: a slow machine must not look like a broken one
    testTimeout: process.env["SLUICE_DEEP"] ? 1_200_000 : 60_000,
    hookTimeout: 60_000,
    // what takes a millisecond may take seconds on a busy machine
    expect: { poll: { timeout: 10_000, interval: 10 } },
    // much of the time is waiting: for a process, for a line that is cut, for a limit to come
    maxWorkers: availableParallelism() + 1,
    reporters: ["default", plainLine],
    coverage: { provider: "v8", include: ["packages/*/src/**"] },
  },
});
