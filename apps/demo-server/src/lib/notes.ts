// The second storage of the example server: a few notes in memory.
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";

/** URI of one of them. */
export const noteUri = "notes://demo/welcome.md";

export const notes: StorageBackend = createMemoryBackend({
  "welcome.md": "# Welcome\n\nThis note lies in memory, the files in another storage.\n",
});
