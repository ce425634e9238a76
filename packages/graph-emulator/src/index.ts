export type { EmulatedContent, EmulatedDrive, EmulatedMeta } from "./lib/drive.ts";
export type { EmulatedFault, SeenRequest } from "./lib/hosts.ts";
export {
  type GraphEmulator,
  type GraphEmulatorOptions,
  startGraphEmulator,
} from "./lib/start-emulator.ts";
