import type { Overrides } from "@sluice/storage";
import { createBytesBody } from "@sluice/storage/plugin";
import type { Service } from "../reference-service.ts";
import type { Mutants } from "./mutant.ts";

/** Takes any answer for the bytes of the object that was described. */
function believes({ state }: Service): Overrides {
  return {
    open: (open) => async (key, options) => {
      state.validator = undefined;
      return open(key, options);
    },
  };
}

export const answerMutants: Mutants = {
  "answer-page": {
    flaw: "believes every answer with status 200",
    breaks: ({ state }) => ({
      open: (open) => async (key, options) => {
        const { page } = state;
        if (!page) return open(key, options);
        state.page = undefined;
        const bytes = new TextEncoder().encode(page.text);
        return { info: { key, size: bytes.byteLength }, body: createBytesBody(bytes, undefined) };
      },
    }),
  },
  "answer-unmarked": {
    flaw: "lets the description vouch for a part that names no version",
    also: ["answer-remarked"],
    breaks: believes,
  },
  "answer-remarked": {
    flaw: "does not look at the version that a part names",
    also: ["answer-unmarked"],
    breaks: believes,
  },
};
