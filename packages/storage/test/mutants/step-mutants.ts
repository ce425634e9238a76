import { SluiceError } from "@sluice/core";
import { type Mutants, writesInSteps } from "./mutant.ts";

export const stepMutants: Mutants = {
  "steps-invisible": {
    flaw: "shows what was suspended",
    breaks: ({ store }) =>
      writesInSteps("steps/invisible.bin", (writer) => ({
        async suspend() {
          store.put("steps/invisible.bin", "so far");
          return writer.suspend();
        },
      })),
  },
  "steps-bytes": {
    flaw: "does not know what it has written in steps",
    breaks: () =>
      writesInSteps("steps.bin", (writer) => ({
        commit: async () => ({ ...(await writer.commit()), size: -1 }),
      })),
  },
  "steps-offset": {
    flaw: "tells of fewer bytes than it has kept",
    breaks: () =>
      writesInSteps("offset.bin", (writer) => ({
        async suspend() {
          const { offset, rest } = await writer.suspend();
          return { offset: offset - 1, rest };
        },
      })),
  },
  "steps-empty": {
    flaw: "makes nothing of steps without a byte",
    breaks: ({ store }) =>
      writesInSteps("empty-steps.bin", (writer) => ({
        async commit() {
          const info = await writer.commit();
          await store.remove("empty-steps.bin");
          return info;
        },
      })),
  },
  "steps-process": {
    flaw: "keeps ids in the memory of its process",
    breaks: () => {
      const own = new Set<string>();
      return {
        writeInSteps: (writeInSteps) => async (key, options) => {
          if (key === "process.bin" && options?.id !== undefined && !own.has(options.id))
            throw new SluiceError("not_found", "memory: write in steps: nothing is kept");
          const writer = await writeInSteps(key, options);
          own.add(writer.id);
          return writer;
        },
      };
    },
  },
  "steps-look": {
    flaw: "begins anew when it is looked at",
    breaks: () =>
      writesInSteps("look.bin", (writer) => {
        let written = 0;
        return {
          async write(chunk) {
            written += chunk.byteLength;
            await writer.write(chunk);
          },
          async suspend() {
            if (written > 0) return writer.suspend();
            await writer.abort();
            return { offset: 0, rest: new Uint8Array() };
          },
        };
      }),
  },
  "steps-race": {
    flaw: "lets the last of two writers win",
    breaks: ({ store }) =>
      writesInSteps("race-steps.bin", (writer) => ({
        commit: () => writer.commit().catch(() => store.describe("race-steps.bin")),
      })),
  },
  "steps-late": {
    flaw: "makes the object again of nothing",
    breaks: ({ store }) =>
      writesInSteps("late-steps/0-0.bin", (writer) => ({
        commit: () => writer.commit().catch(() => store.describe("late-steps/0-0.bin")),
      })),
  },
  "steps-abort": {
    flaw: "keeps the bytes of earlier steps",
    breaks: () =>
      writesInSteps("aborted.bin", (writer) => ({
        async abort() {
          await writer.suspend().catch(() => {});
        },
      })),
  },
  "steps-finished": {
    flaw: "resumes a finished object",
    breaks: () => ({
      writeInSteps: (writeInSteps) => async (key, options) => {
        try {
          return await writeInSteps(key, options);
        } catch (error) {
          if (key !== "made.bin") throw error;
          return { ...(await writeInSteps(key)), offset: 1000 };
        }
      },
    }),
  },
  "steps-ended": {
    flaw: "takes bytes after the end of a step, and forgets them",
    breaks: () =>
      writesInSteps("ended.bin", (writer) => ({
        write: (chunk) => writer.write(chunk).catch(() => {}),
      })),
  },
  "steps-id": {
    flaw: "takes an invalid id for nothing kept",
    breaks: () => ({
      writeInSteps: (writeInSteps) => (key, options) =>
        writeInSteps(key, options).catch((error: unknown) => {
          if (options?.id !== "../id.bin") throw error;
          return writeInSteps(key);
        }),
    }),
  },
  "steps-type": {
    flaw: "forgets the type of the first step",
    breaks: () => ({
      writeInSteps:
        (writeInSteps) =>
        (key, { contentType: _forgotten, ...options } = {}) =>
          writeInSteps(key, options),
    }),
  },
  "steps-aborted": {
    flaw: "does not look at the signal of a step",
    breaks: () => ({
      writeInSteps:
        (writeInSteps) =>
        (key, { signal: _forgotten, ...options } = {}) =>
          writeInSteps(key, options),
    }),
  },
  "steps-failure": {
    flaw: "loses what was kept when a request fails",
    breaks: () => ({
      writeInSteps: (writeInSteps) => (key, options) =>
        writeInSteps(key, options).catch(async (error: SluiceError) => {
          if (error.code === "unavailable") await (await writeInSteps(key, options)).abort();
          throw error;
        }),
    }),
  },
};
