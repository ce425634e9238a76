import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createPartFile } from "../src/save/part-file.ts";

test("a restart drops what was collected and not yet written, and gives its memory back", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-part-"));
  const part = await createPartFile(directory);
  try {
    let givenBack = 0;
    const old = part.writeBuffer(1_000);
    void old.write(Buffer.from("old version"), 0, () => givenBack++);
    await part.restart();
    expect(givenBack).toBe(1);

    void part.writeBuffer(1_000).write(Buffer.from("new"), 0);
    await part.flush();
    expect(await readFile(part.path, "utf8")).toBe("new");
    expect(part.gapless()).toBe(3);
  } finally {
    await part.discard();
    await rm(directory, { recursive: true });
  }
});
