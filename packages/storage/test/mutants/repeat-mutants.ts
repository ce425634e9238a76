import { SluiceError } from "@sluice/core";
import type { Mutants } from "./mutant.ts";

export const repeatMutants: Mutants = {
  "repeat-fault": {
    flaw: "sends the requests of a writer once, whatever its options",
    also: ["repeat-lost"],
    breaks: () => ({
      write: (write) => (key, options) => write(key, { ...options, repeat: (send) => send() }),
    }),
  },
  "repeat-lost": {
    flaw: "takes its own object, made by the try before, for another writer's",
    breaks: ({ state }) => ({
      write: (write) => async (key, options) => {
        const writer = await write(key, options);
        return {
          write: (chunk) => writer.write(chunk),
          async commit() {
            const isLost = state.losesAnswer;
            const info = await writer.commit();
            if (!isLost) return info;
            throw new SluiceError("precondition_failed", "memory: write: it is there already");
          },
          abort: (reason) => writer.abort(reason),
          [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
        };
      },
    }),
  },
  "repeat-steps": {
    flaw: "sends the requests of a step once, whatever its options",
    breaks: () => ({
      writeInSteps: (writeInSteps) => (key, options) =>
        writeInSteps(key, { ...options, repeat: (send) => send() }),
    }),
  },
};
