export { createTelemetry, type TelemetryOptions } from "./lib/open-telemetry.ts";
