import { appDocument, type HostApp } from "@sluice/server/internal";
import { appScript, appStyle } from "./browser-files.ts";

const title = "Send files";

/** The App that shows the upload page of a question inside a conversation. */
export function uploadAppOf(endpointUrl: string): HostApp {
  return {
    uri: "ui://sluice/upload",
    title,
    endpointUrl,
    document: () => appDocument({ title, script: appScript, style: appStyle, endpointUrl }),
  };
}
