import { unlessMissing } from "@sluice/storage/plugin";
import { bytesKey, planKey, type FilePlan, type UploadObject } from "./layout.ts";
import { findJson, type UploadStorage } from "./upload-storage.ts";

/** Removes one object of an upload, and with the plan of a file what storage keeps of its steps: no listing shows that. */
export async function removeObject(
  storage: UploadStorage,
  object: UploadObject,
  signal: AbortSignal,
): Promise<void> {
  if (object.kind === "plan") await abortSteps(storage, object, signal);
  await storage.remove(object.info.key, { signal });
}

async function abortSteps(
  storage: UploadStorage,
  { folder, fileId }: Pick<UploadObject & { kind: "plan" }, "folder" | "fileId">,
  signal: AbortSignal,
): Promise<void> {
  if (!storage.writeInSteps) return;
  const plan = await findJson<FilePlan>(storage, planKey(folder, fileId), signal);
  if (plan?.steps === undefined) return;
  const options = { id: plan.steps, signal };
  const writer = await unlessMissing(storage.writeInSteps(bytesKey(folder, fileId), options));
  await writer?.abort();
}
