export { createTelemetry, type TelemetryOptions } from "./audit/open-telemetry.ts";
