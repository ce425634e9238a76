// loaded separately, if a caller wants to be asked
export { ensureConsent, scaleOf } from "./consent.ts";
