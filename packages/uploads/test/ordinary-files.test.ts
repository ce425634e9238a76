import { fileTypeFromBuffer, supportedMimeTypes } from "file-type/core";
import { expect, test } from "vitest";
import { typeOfName } from "@sluice/client/internal";
import { createKindDetector } from "../src/checks/detect-kind.ts";
import { ordinaryFiles, type OrdinaryFile } from "./ordinary-kinds.ts";

async function kindOf(
  { name, declaredType, bytes }: Omit<OrdinaryFile, "kind" | "asked">,
  accept: readonly string[] = [],
): Promise<string> {
  const detector = createKindDetector({ name, declaredType }, accept);
  try {
    await detector.add(bytes);
    return await detector.kind();
  } catch (error) {
    return (error as Error).message;
  }
}

test.for(ordinaryFiles.map((file) => ({ ...file, called: file.declaredType ?? "nothing" })))(
  "$name, declared as $called, is $kind where everything is accepted",
  async (file) => {
    expect(await kindOf(file)).toBe(file.kind);
  },
);

test.for(ordinaryFiles.map((file) => ({ ...file, called: file.declaredType ?? "nothing" })))(
  "$name, declared as $called, is $kind where $asked is asked for",
  async (file) => {
    expect(await kindOf(file, [file.asked])).toBe(file.kind);
  },
);

test("negative control: the names of two libraries, compared as they are, refuse most of these files", async () => {
  const verdicts = await Promise.all(
    ordinaryFiles.map(async ({ name, declaredType, bytes }) => {
      const found = (await fileTypeFromBuffer(bytes))?.mime;
      return [declaredType ?? typeOfName(name), typeOfName(name)].every(
        (told) =>
          told === "application/octet-stream" ||
          (found === undefined ? !(supportedMimeTypes as Set<string>).has(told) : found === told),
      );
    }),
  );
  const refused = verdicts.filter((isTaken) => !isTaken).length;
  expect(refused).toBeGreaterThan(ordinaryFiles.length / 2);
});
