import { createMemoryBackend } from "@sluice/storage";
import { createLargeContent, type Fixture } from "@sluice/storage/conformance";

/** Objects in memory, for the conformance kit. */
export function createFixture(): Fixture {
  const backend = createMemoryBackend();
  return {
    backend,
    put: async (key, content) => void backend.put(key, content),
    remove: (key) => backend.remove(key),
    putTyped: async (key, content, type) => void backend.put(key, content, type),
    putLarge: async (key, size, tail) => void backend.put(key, createLargeContent(size, tail)),
    why: {
      faults: "no network lies in between",
      deny: "there are no permissions",
      reopen: "another process has other memory",
      putFolder: "there are no folders",
      putOutside: "there is no outside",
      putClutter: "all that there is are objects",
      touch: "a change of metadata is a new version",
      alias: "an object has one name",
      overwrite: "content is replaced, never changed",
    },
    dispose: () => backend.close(),
  };
}
