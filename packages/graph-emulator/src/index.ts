export type { EmulatedContent, EmulatedDrive, EmulatedMeta } from "./drive/drive.ts";
export type { EmulatedFault, SeenRequest } from "./hosts/hosts.ts";
export {
  type GraphEmulator,
  type GraphEmulatorOptions,
  startGraphEmulator,
} from "./hosts/start-emulator.ts";
