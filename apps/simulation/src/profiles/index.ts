import type { Profile } from "../run/profile.ts";
import { folders } from "./folders.ts";
import { links } from "./links.ts";
import { listen } from "./listen.ts";
import { resume } from "./resume.ts";
import { savesCrashes } from "./saves-crashes.ts";
import { savesVersions } from "./saves-versions.ts";
import { uploads } from "./uploads.ts";

/** All profiles. */
export const profiles: readonly Profile[] = [
  savesVersions,
  savesCrashes,
  links,
  uploads,
  resume,
  folders,
  listen,
];
