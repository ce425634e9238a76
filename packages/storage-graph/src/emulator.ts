export type { EmulatedContent, EmulatedDrive, EmulatedMeta } from "./lib/emulator/drive.ts";
export type { Fault, SeenRequest } from "./lib/emulator/desk.ts";
export {
  type GraphEmulator,
  type GraphEmulatorOptions,
  startGraphEmulator,
} from "./lib/emulator/start-emulator.ts";
