import type { Profile } from "../run/profile.ts";
import { bridge } from "./bridge.ts";
import { folders } from "./folders.ts";
import { leases } from "./leases.ts";
import { links } from "./links.ts";
import { listen } from "./listen.ts";
import { resume } from "./resume.ts";
import { savesCrashes } from "./saves-crashes.ts";
import { savesVersions } from "./saves-versions.ts";
import { sessions } from "./sessions.ts";
import { uploads } from "./uploads.ts";

/** All profiles. */
export const profiles: readonly Profile[] = [
  savesVersions,
  savesCrashes,
  links,
  leases,
  sessions,
  uploads,
  resume,
  folders,
  listen,
  bridge,
];
