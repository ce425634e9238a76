/** A doctor in a process of its own, whose environment says what certificates it trusts: asked once, of several servers. */
import { diagnose, type TransferFinding } from "@sluice/bridge";

process.once("message", (urls: readonly string[]) => void look(urls));
process.send!({});

async function look(urls: readonly string[]): Promise<void> {
  const found: Promise<TransferFinding[]>[] = urls.map((url) =>
    diagnose(new URL(url), { watchMs: 300 }),
  );
  process.send!(await Promise.all(found));
}
