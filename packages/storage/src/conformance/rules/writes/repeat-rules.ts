import type { StorageBackend } from "../../../contract/backend.ts";
import { withRetry } from "../../../wrappers/retry.ts";
import { assertBytes, expectCode, oneMiB, pattern, readKey, text } from "../../expect.ts";
import { type Rule, rule } from "../../rule.ts";

/** The backend as servers use it, without the pauses. */
function patient(backend: StorageBackend): Required<StorageBackend> {
  return withRetry(backend, { random: () => 0, maxAttempts: 8 }) as Required<StorageBackend>;
}

/** One transient fault of a service does not end a write. */
export const repeatRules: readonly Rule[] = [
  rule({
    id: "repeat-fault",
    sentence: "behind retry a write survives a failure of the service at its begin, parts and end",
    needs: ["backend.write", "fault.fail"],
    async check({ backend, faults, traits }) {
      const partBytes = traits?.partBytes ?? oneMiB;
      for (const [key, size] of [
        ["small.bin", 1000],
        ["large.bin", 2 * partBytes + 1000],
      ] as const) {
        const content = pattern(size);
        faults.fail();
        const writer = await patient(backend).write(key, { size, ifAbsent: true });
        for (let at = 0; at < size; at += partBytes) {
          faults.fail();
          await writer.write(content.slice(at, at + partBytes));
        }
        faults.fail();
        await writer.commit();
        assertBytes(await readKey(backend, key), content);
      }
    },
  }),
  rule({
    id: "repeat-lost",
    sentence:
      "behind retry a conditional write whose answer is lost succeeds only where it made the object",
    needs: ["backend.write", "fault.loseAnswer"],
    async check({ backend, put, faults }) {
      const write = async (key: string, taken?: Uint8Array): Promise<unknown> => {
        const writer = await patient(backend).write(key, { ifAbsent: true });
        await writer.write(text("mine"));
        if (taken) await put(key, taken);
        faults.loseAnswer();
        return writer.commit();
      };
      await write("lost.txt");
      assertBytes(await readKey(backend, "lost.txt"), text("mine"));
      for (const other of ["theirs", "mine"]) {
        const key = `taken-${other}.txt`;
        await expectCode(() => write(key, text(other)), "precondition_failed");
        assertBytes(await readKey(backend, key), text(other));
      }
    },
  }),
  rule({
    id: "repeat-steps",
    sentence:
      "behind retry a write in steps survives a failure at each call, and a lost last answer",
    needs: ["backend.writeInSteps", "fault.fail", "fault.loseAnswer"],
    async check({ backend, faults, traits }) {
      const content = pattern(traits?.partBytes ?? oneMiB);
      const storage = patient(backend);
      faults.fail();
      const first = await storage.writeInSteps("steps.bin");
      faults.fail();
      await first.write(content.slice());
      const { rest } = await first.suspend();
      faults.fail();
      const last = await storage.writeInSteps("steps.bin", { id: first.id });
      if (rest.byteLength > 0) await last.write(rest);
      faults.loseAnswer();
      await last.commit();
      assertBytes(await readKey(backend, "steps.bin"), content);
    },
  }),
];
